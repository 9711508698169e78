"""Checks a plan for sm_80 and sm_90a, as msamp-inspect writes it: which types are multiplied, kept and exchanged."""
import json
import sys

plan = json.load(open(sys.argv[1], encoding="utf-8"))
ampere, hopper = plan["targets"]
FP8 = {"e4m3", "e5m2"}
SIZE = {"e4m3": 1, "e5m2": 1, "bf16": 2, "f32": 4, "i64": 8}


def products(target):
    return [step for program in target["programs"] for step in program["steps"] if step["kind"] == "matmul" and "when" not in step]


def kept(target):
    """Types and bytes of the buffers that the forward writes and the backward reads."""
    steps = target["programs"][0]["steps"]
    places = {}
    for step in steps:
        for operand in step["inputs"] + step["outputs"]:
            if "buffer" in operand:
                places.setdefault(operand["buffer"], operand["type"])
    written = {o["buffer"] for s in steps if not s["backward"] for o in s["outputs"] if "buffer" in o}
    read = {o["buffer"] for s in steps if s["backward"] for o in s["inputs"] if "buffer" in o}
    sizes = target["programs"][0]["buffers"]
    return {b: (places[b], sizes[b]["bytes"]) for b in written & read}


def operands(step):
    return {o["type"] for o in step["inputs"][:2]}


assert not any(operands(step) & FP8 for step in products(ampere)), "a product for sm_80 reads FP8"
assert all(operands(step) <= FP8 for step in products(hopper) if step["fp8_values"])
counts = [sum(step["fp8_values"] for step in products(target)) for target in (ampere, hopper)]
assert counts[0] == counts[1] == 64, f"{counts} products of FP8 values: 16 layers forward, for the loss alone, and two each back"
own, other = (kept(target) for target in (ampere, hopper))
assert any(type in FP8 for type, _ in own.values()), "nothing is kept in FP8"
own, other = (sum(size for _, size in k.values()) for k in (own, other))
assert own <= other, f"sm_80 keeps {own} bytes for the backward, sm_90a {other}"
matrices = [p for p in plan["parameters"] if p["class"] == "scaled"]
assert len(matrices) == 16 and all((p["weight"], p["gradient"]) == ("e4m3", "e4m3") for p in matrices)
assert all(b["wire"] == "e4m3" for b in plan["buckets"] if b["class"] == "scaled")
