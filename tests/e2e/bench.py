"""msamp-bench and traces: what is printed where, that the figures fit together, and what flags are refused."""
import json

import common

t = common.Context()
plan = t.compile(common.MODELS / "gpt_bytes.onnx", "plan", "--dim", "batch=4", "--dim", "seq=64", "--level", "O2", "--init", "normal:0.02")
done = t.run("msamp-bench", plan, "--steps", "3", "--warmup", "2", "--json")
r = json.loads(done.stdout)
for field in ("tokens_per_second", "model_tflops", "peak_bytes", "predicted_peak_bytes", "loss_first", "loss_last", "step_ms_median"):
    t.expect(isinstance(r.get(field), (int, float)), f"--json has {field}: {r.get(field)}")
t.expect("row kernels" in done.stderr and "tokens/s" in done.stderr, "with --json the tables are on standard error")
layers, width, vocabulary, length, tokens = 4, 128, 256, 64, 4 * 64
expected = 6 * (layers * 12 * width * width + vocabulary * width) * tokens + 6 * layers * width * length * tokens
t.expect(r["model_flops_per_step"] == expected, f"model FLOPs are {r['model_flops_per_step']:.0f}, by hand {expected}")
t.expect(r["tokens_per_step"] == tokens, f"{r['tokens_per_step']} tokens a step")
t.expect(abs(r["tokens_per_second"] * r["step_ms_median"] / 1e3 / tokens - 1) < 1e-9, "speed is tokens over the median step")
t.expect(abs(r["loss_first"] - 5.55) < 0.3, f"random tokens cost about ln 256 = 5.55 at first: {r['loss_first']}")
t.expect(len(r["losses"]) == 5 and r["losses"][0] == r["loss_first"] and r["losses"][-1] == r["loss_last"], f"losses {r['losses']}")
kinds = {k["kind"]: k for k in r["kinds"]}
t.expect(set(kinds) == {"GEMM", "attention", "row kernels", "optimizer", "collectives", "gaps"}, f"kinds {sorted(kinds)}")
total = sum(k["ms"] for k in r["kinds"])
t.expect(abs(total / r["step_ms_median"] - 1) < 1e-6, f"kinds and gaps add up to the step: {total:.3f} of {r['step_ms_median']:.3f} ms")
t.expect(abs(sum(k["ms"] for k in r["kernels"]) + kinds["gaps"]["ms"] - total) < 1e-6, "so do the steps of the plan")
t.expect(kinds["GEMM"]["flops"] > 0 and 0 < kinds["GEMM"]["share_of_limit"], f"GEMM {kinds['GEMM']}")
t.expect(all(k.get("share_of_limit", 1) > 0 for k in r["kernels"]), "each step with a limit has a share of it")

same = json.loads(t.run("msamp-bench", plan, "--steps", "3", "--warmup", "2", "--json", "--no-table").stdout)
t.expect(same["losses"] == r["losses"], "the same seed gives the same losses")
other = json.loads(t.run("msamp-bench", plan, "--steps", "1", "--warmup", "0", "--seed", "5", "--json", "--peak", "2").stdout)
t.expect(other["loss_first"] != r["loss_first"] and other["peak_tflops"] == 2, "another seed gives another loss; --peak counts")
text = t.run("msamp-bench", plan, "--steps", "1", "--warmup", "1", "--data", common.MODELS / "gpt_bytes.onnx", "--nproc", "2")
t.expect("2 x cpu" in text.stdout and not text.stderr, "two ranks and data from a file; text goes to standard output")
for flags in (["--steps", "0"], ["--warmup", "-1"], ["--peak", "0"], ["--device", "tpu"], ["--lr", "x"], ["--nonsense"]):
    refused = t.run("msamp-bench", plan, *flags, expect=64)
    t.expect(flags[0].lstrip("-") in refused.stderr and not refused.stdout, f"{' '.join(flags)} is refused: {refused.stderr.strip()}")
t.expect("--peak" in t.run("msamp-bench", "--help").stdout, "--help documents the flags")
t.run("msamp-bench", t.work / "none", expect=74)

# --- traces
trace = t.work / "trace.json"
t.run("msamp-run", plan, "--data", common.MODELS / "gpt_bytes.onnx", "--steps", "6", "--profile", trace)
events = json.loads(trace.read_text())["traceEvents"]
spans = [e for e in events if e["ph"] == "X"]
programs = [e for e in spans if e["cat"] == "program"]
steps = [e for e in spans if e["cat"] != "program"]
t.expect([e["name"] for e in programs] == ["micro_step", "update"], f"programs {[e['name'] for e in programs]}")
t.expect(any(e["name"].startswith("node_MatMul_7") and e["args"]["flops"] > 0 and e["args"]["bytes"] > 0 for e in steps), "products carry ONNX nodes, bytes and operations")
t.expect(any(e["name"].endswith("(backward)") for e in steps), "backward steps say so")
ends = [(e["ts"], e["ts"] + e["dur"]) for e in steps]
t.expect(all(a[1] <= b[0] + 1e-3 for a, b in zip(ends, ends[1:])), f"{len(steps)} spans follow one another")
t.run("msamp-run", plan, "--data", common.MODELS / "gpt_bytes.onnx", "--steps", "1", "--profile", t.work / "none" / "trace.json", expect=74)
t.finish()
