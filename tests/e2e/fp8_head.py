"""An FP8 head: chunks of tokens compute what the whole computes, and memory is what the compiler says."""
import common


def sizes(text):
    """The rows of a memory table: a role and its bytes."""
    rows = [line.split() for line in text.splitlines()]
    return [row for row in rows if len(row) == 2 and row[1].replace(",", "").isdigit()]


t = common.Context()
for recipe in ("delayed", "current", "rowwise", "block"):
    losses, printed = [], []
    for chunk in (0, 1):  # MiB: the logits of 8192 tokens are four
        plan = t.compile(common.MODELS / "gpt_bytes.onnx", f"{recipe}.{chunk}", "--dim", "batch=64", "--dim", "seq=128", "--init",
                         "normal:0.02", "--level", "O2", "--recipe", recipe, "--fp8-head", "--loss-chunk", chunk, "--remarks",
                         t.work / "remarks")
        cut = "2048 of 8192 tokens at a time" in (t.work / "remarks").read_text()
        t.expect(cut == (chunk == 1), f"{recipe}: the head is cut with --loss-chunk {chunk} or not")
        losses.append(common.losses(t.train(plan, "log", "--steps", 3, "--lr", "1e-3")))
        printed.append(t.run("msamp-inspect", plan).stdout)
    # The forward of the first step differs in nothing; its backward in the order of sums and where scales come from: in roundings
    # of 2^-3 of gradients that a step of 1e-3 passes on. A chunk that is missing, or counted twice, is a quarter of the gradient.
    difference = abs(losses[0] - losses[1])
    t.expect(difference[0] < 1e-5 and difference.max() < 2e-3, f"{recipe}: losses {losses[0]} and {losses[1]} in chunks")
    t.expect(all("table   256x128  plain   bf16" in text for text in printed), f"{recipe}: the table that is the head is stored as tables are")
plan = t.work / "delayed.1"
memory = t.run("msampc", common.MODELS / "gpt_bytes.onnx", "-o", plan, "--dim", "batch=64", "--dim", "seq=128", "--level", "O2", "--fp8-head",
               "--loss-chunk", 1, "--memory").stdout
allocated = t.run("msamp-run", plan, "--memory").stdout
t.expect(len(sizes(memory)) >= 9 and sizes(memory) == sizes(allocated),
         f"the runtime allocates what the compiler said:\n{memory}\n{allocated}")
t.finish()
