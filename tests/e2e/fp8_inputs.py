"""At O1-O3 the linear layers' three GEMMs read FP8 values: seen in the plan's steps and in memory as they run."""
import re

import common

t = common.Context()
LINEARS = 16  # of gpt_bytes: four a layer
for variant in ("O1", "O2", "O3", "O2/current", "O2/rowwise", "bf16"):
    level, _, recipe = variant.partition("/")
    plan = t.gpt_bytes("plan", "--level", level, *(["--recipe", recipe] if recipe else []))
    done = t.run("test-spy", plan, t.corpus(), expect=None)
    kinds = {m[1]: (int(m[2]), float(m[3])) for m in re.finditer(r"^((?:scaled|plain) \w+ x \w+) (\d+) ([\d.]+)$", done.stdout, re.M)}
    t.expect(done.returncode == 0, f"{variant}: products are those of the bytes in memory: {done.stdout.split()[-2:]} {done.stderr}")
    scaled = {k: v for k, v in kinds.items() if k.startswith("scaled")}
    if level == "bf16":
        t.expect(not scaled, f"{variant}: no GEMM has FP8 operands")
        continue
    forward = scaled.get("scaled e4m3 x e4m3", (0, 0))[0]
    backward = sum(v[0] for k, v in scaled.items() if "e5m2" in k)
    t.expect(forward == LINEARS, f"{variant}: {forward} GEMMs of E4M3 x E4M3 forward")
    t.expect(backward == 2 * LINEARS, f"{variant}: {backward} GEMMs of an E5M2 gradient and an E4M3 operand backward")
    t.expect(sum(v[0] for v in scaled.values()) == 3 * LINEARS, f"{variant}: and no other: {kinds}")
    t.expect(all(0.1 < v[1] <= 1 for v in scaled.values()), f"{variant}: the codes use the formats' range: {scaled}")
    plain = {k: v[0] for k, v in kinds.items() if k.startswith("plain")}
    t.expect(sum(plain.values()) == 3 and not any("e4m3" in k or "e5m2" in k for k in plain), f"{variant}: the head's are plain: {plain}")
t.finish()
