"""State bytes are those of the design's table, as printed and as allocated."""
import json
import re

import common

t = common.Context()
# Bytes a parameter: weights, master, gradients, moments; for GEMM weights and for the other parameters.
TABLE = {
    "fp32": ((4, 0, 4, 8), (4, 0, 4, 8)),
    "bf16": ((2, 4, 2, 8), (2, 4, 2, 8)),
    "O1": ((2, 0, 1, 8), (2, 4, 2, 8)),
    "O2": ((2, 0, 1, 3), (2, 4, 2, 3)),
    "O3": ((1, 2, 1, 3), (2, 4, 2, 3)),
}
STATE = ("weights", "master", "gradients", "moments")


def table(text):
    """{role: [bytes of rank 0, ...]} of a printed memory table."""
    roles = {}
    for line in text.splitlines():
        match = re.match(r"\s*(weights|master|gradients|moments|scales|padding|activations|workspace|constants|inputs|total)\b(.*)", line)
        if match:
            roles[match[1]] = [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", match[2])]
    return roles


def expected(level, gemm, other):
    return {role: gemm * TABLE[level][0][i] + other * TABLE[level][1][i] for i, role in enumerate(STATE)}


def state(roles, rank=0):
    return {role: roles.get(role, [0] * 8)[rank] for role in STATE}


GEMM, OTHER = 786432, 72448  # of gpt_bytes: 4 layers of 12 x 128 x 128, and tables, norms and biases
for level in TABLE:
    plan = t.work / "plan"
    arguments = [common.MODELS / "gpt_bytes.onnx", "-o", plan, "--dim", "batch=16", "--dim", "seq=128", "--level", level]
    compiled = table(t.run("msampc", *arguments, "--memory").stdout)
    want = expected(level, GEMM, OTHER)
    t.expect(state(compiled) == want, f"gpt_bytes {level}: compiled {state(compiled)}, the design's {want}")
    allocated = table(t.run("msamp-run", plan, "--memory").stdout)
    t.expect(state(allocated) == want, f"gpt_bytes {level}: allocated {state(allocated)}")
    t.expect(allocated == compiled, f"gpt_bytes {level}: the runtime allocates what the compiler said, role by role: {compiled}")

    compiled = table(t.run("msampc", *arguments, "--zero", 1, "--memory=2").stdout)
    allocated = table(t.run("msamp-run", plan, "--memory", "--nproc", 2).stdout)
    t.expect(allocated == compiled, f"gpt_bytes {level}: the same with ZeRO 1 on two ranks")
    for role in ("master", "moments"):
        total = sum(compiled.get(role, [0]))
        t.expect(total == want[role], f"gpt_bytes {level}: ZeRO 1 shares {role} among the ranks: {compiled.get(role)}")

TOTALS = {"O1": 15013314560, "O2": 8434216960, "O3": 9642176512}
for level in ("fp32", "bf16", "O1", "O2", "O3"):
    done = t.run("msampc", common.MODELS / "gpt-1.3b.opset18.onnx", "-o", t.work / "large", "--dim", "batch=1", "--level", level,
                 "--init", "normal:0.02", "--memory")
    t.expect(done.seconds < 60, f"gpt-1.3b {level}: compiled in {done.seconds:.1f} s")
    if level in TOTALS:
        total = sum(state(table(done.stdout)).values())
        t.expect(total == TOTALS[level], f"gpt-1.3b {level}: {total:,} bytes of state, {TOTALS[level]:,} wanted")
    done = t.run("msamp-inspect", t.work / "large", "--format", "json")
    t.expect(isinstance(json.loads(done.stdout), dict), f"gpt-1.3b {level}: msamp-inspect reads the plan")
t.finish()
