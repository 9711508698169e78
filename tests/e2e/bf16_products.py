"""What a target without FP8 GEMMs computes is what FP8 GEMMs do, up to the order of their sums: its programs, run on the CPU."""
import re

import common

t = common.Context()
MODEL, REFERENCE = common.MODELS / "gpt_bytes.onnx", common.MODELS / "gpt_bytes.ref.safetensors"


def checked(plan):
    """Loss and the norms of gradients of a check against PyTorch, which passes."""
    done = t.run("msamp-run", plan, "--check", REFERENCE)
    loss = float(re.search(r"out\.loss .* ([0-9.]+), reference", done.stdout).group(1))
    gemms = int(re.search(r"and (\d+) GEMMs of FP8 operands", done.stdout).group(1))
    return loss, gemms


for level, recipe in (("O2", "delayed"), ("O3", "delayed"), ("O3", "rowwise"), ("O1", "current")):
    flags = ["--dim", "batch=4", "--dim", "seq=64", "--level", level, "--recipe", recipe]
    exact = checked(t.compile(MODEL, "fp8", *flags))
    module = t.work / "fused.mlir"
    t.run("msampc", MODEL, *flags, "--target", "sm_80", "--compile-to", "fuse", "-o", module)
    text = module.read_text()
    t.expect("scaled_matmul" not in text and "fp8_values" in text, f"{level} {recipe}: no FP8 GEMM for sm_80")
    # From here on the CPU takes it as its own.
    module.write_text(text.replace('msamp.target = "sm_80"', 'msamp.target = "cpu"'))
    plan = t.work / "bf16"
    t.run("msampc", module, "--compile-from", "fuse", "-o", plan)
    widened = checked(plan)
    t.expect(widened[1] == exact[1] == 16, f"{level} {recipe}: {exact[1]} GEMMs of FP8 values either way")
    # Sums in another order round some BF16 values to their neighbours; the mean over 256 labels hides it. FP8 itself costs 2^-13.
    t.expect(abs(widened[0] - exact[0]) < 2**-18 * exact[0], f"{level} {recipe}: loss {widened[0]}, of FP8 GEMMs {exact[0]}")
t.finish()
