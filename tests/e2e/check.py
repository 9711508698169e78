"""Loss, outputs and gradients agree with PyTorch's, and stored twins are tied (msamp-run --check)."""
import re

import common

MODELS = ["gpt_bytes", "gpt2.dynamo", "gpt2.dynamo23", "gpt2.dynamo_dyn", "llama.dynamo", "llama.dynamo23",
          "llama.dynamo_dyn", "opt.dynamo", "opt.legacy17", "bloom.legacy17", "resnet.dynamo"]
TWINS = {"opt.legacy17": ("m.model.decoder.embed_tokens.weight", "onnx::MatMul_420"), "bloom.legacy17": None}


def paths(model):
    if model == "gpt_bytes":
        return common.MODELS / "gpt_bytes.onnx", common.MODELS / "gpt_bytes.ref.safetensors"
    return common.MODELS / model / "model.onnx", common.MODELS / model / "ref.safetensors"


def dims(model):
    if model == "gpt_bytes":
        return ["--dim", "batch=4", "--dim", "seq=64"]
    if "dyn" in model.split(".")[1].split("dynamo")[-1] or "legacy" in model:
        return ["--dim", "batch=2", "--dim", "seq=32"]
    return []


def tied_twins(reference):
    """Pairs of matrices with the same gradient, one perhaps transposed: what the exporter stored twice."""
    gradients = {k[5:]: v for k, v in reference.items() if k.startswith("grad.") and v.ndim == 2}
    names = sorted(gradients)
    for i, a in enumerate(names):
        for b in names[i + 1:]:
            x, y = gradients[a], gradients[b]
            if x.shape == y.shape and (x == y).all():
                yield a, b, False
            elif x.shape == y.T.shape and (x == y.T).all():
                yield a, b, True


t = common.Context(("--levels", "fp32"), ("--models", ",".join(MODELS)))
for model in t.args.models.split(","):
    onnx, reference = paths(model)
    for level in t.args.levels.split(","):
        compiled = t.run("msampc", onnx, "-o", t.work / "plan", "--target", "cpu", *dims(model), *common.variant(level), expect=None)
        if compiled.returncode != 0:
            t.expect(False, f"{model} {level}: msampc: exit {compiled.returncode}: {compiled.stderr.strip()[-600:]}")
            continue
        done = t.run("msamp-run", t.work / "plan", "--check", reference, expect=None)
        worst = [line for line in done.stdout.splitlines() if re.match(r"(grad|out)\.", line)][:1]
        if done.returncode != 0:
            print(done.stdout[:3000], done.stderr)
        t.expect(done.returncode == 0, f"{model} {level}: check; worst: {' '.join(worst[0].split()) if worst else done.stderr.strip()}")

    if "legacy17" in model and t.args.levels == "fp32":
        # A trained twin is one parameter: after steps of training both copies are still equal.
        twins = list(tied_twins(common.read_safetensors(reference)))
        t.expect(len(twins) == 1, f"{model}: the reference has one pair of twins: {twins}")
        t.run("msamp-run", t.work / "plan", "--data", t.corpus(), "--steps", 3, "--save", t.work / "saved.safetensors",
              "--lr", "1e-2")
        saved = common.read_safetensors(t.work / "saved.safetensors")
        for a, b, transposed in twins:
            same = a in saved and b in saved and (saved[a] == (saved[b].T if transposed else saved[b])).all()
            t.expect(bool(same), f"{model}: {a} and {b} are saved both and equal")

# The check notices a wrong gradient, a missing one and a bound that is too tight.
if t.args.levels == "fp32":
    onnx, reference = paths("gpt2.dynamo")
    plan = t.compile(onnx, "plan", "--level", "fp32")
    tensors = common.read_safetensors(reference)
    name = next(k for k in tensors if k.endswith("mlp.c_fc.weight"))
    wrong = dict(tensors)
    wrong[name] = tensors[name] * 1.001
    common.write_safetensors(t.work / "wrong.safetensors", wrong)
    done = t.run("msamp-run", plan, "--check", t.work / "wrong.safetensors", expect=1)
    first = [line for line in done.stdout.splitlines() if line.startswith("grad.")][0]
    t.expect(first.startswith(name) and "FAILED" in first, "a gradient that is off by 0.1 % is the worst row and fails")
    t.run("msamp-run", plan, "--check", t.work / "wrong.safetensors", "--rtol", "1e-2")
    extra = dict(tensors)
    extra["grad.not.there"] = tensors[name]
    common.write_safetensors(t.work / "extra.safetensors", extra)
    done = t.run("msamp-run", plan, "--check", t.work / "extra.safetensors", expect=1)
    t.expect("grad.not.there" in done.stdout and "missing" in done.stdout, "a gradient that the plan lacks fails the check")
    frozen = t.compile(onnx, "frozen", "--level", "fp32", "--freeze", ".*c_fc.weight")
    done = t.run("msamp-run", frozen, "--check", reference, expect=1)
    t.expect("frozen" in done.stdout, "a frozen parameter has no gradient and fails the check")
    # Drawn weights are for what is trained; what is frozen keeps the file's values.
    kept = "m.wpe.weight"
    plan = t.gpt_bytes("drawn", "--level", "O2", "--freeze", kept)
    t.run("msamp-run", plan, "--data", t.corpus(), "--steps", 1, "--save", t.work / "drawn.safetensors")
    before = t.compile(common.MODELS / "gpt_bytes.onnx", "stored", "--level", "fp32", *dims("gpt_bytes"))
    t.run("msamp-run", before, "--data", t.corpus(), "--steps", 1, "--lr", 0, "--save", t.work / "stored.safetensors")
    saved, stored = (common.read_safetensors(t.work / f"{name}.safetensors")[kept] for name in ("drawn", "stored"))
    t.expect(abs(saved - stored).max() <= abs(stored).max() / 256, "a frozen table keeps the file's values, to BF16, beside drawn weights")
t.finish()
