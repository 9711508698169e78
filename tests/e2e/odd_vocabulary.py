"""Vocabularies that GEMMs do not find aligned: padded on a GPU, whose rows of logits may be in registers or in loops."""
import numpy as np

import common
import onnx_writer as ox

t = common.Context()
rng = np.random.default_rng(0)
BATCH, LENGTH, WIDTH = 2, 8, 32
for vocabulary in (250, 5003, 17001, 50257):
    model = t.work / f"model-{vocabulary}.onnx"
    nodes = [ox.node("Gather", ["table", "ids"], ["x"]), ox.node("MatMul", ["x", "mix"], ["m"]), ox.node("Tanh", ["m"], ["h"]),
             ox.node("MatMul", ["h", "head"], ["logits"])]
    model.write_bytes(ox.model(
        nodes, [ox.value("ids", ox.INT64, [BATCH, LENGTH])], [ox.value("logits", ox.FLOAT, [BATCH, LENGTH, vocabulary])],
        [ox.tensor(name, rng.normal(0, 0.1, shape).astype(np.float32))
         for name, shape in (("table", (vocabulary, WIDTH)), ("mix", (WIDTH, WIDTH)), ("head", (WIDTH, vocabulary)))]))
    for level in ("fp32", "bf16", "O2"):
        for target in ("sm_80", "sm_90a"):
            plan = t.work / f"plan-{vocabulary}-{level}-{target}"
            done = t.run("msampc", model, "-o", plan, "--level", level, "--target", target, expect=None)
            t.expect(done.returncode == 0, f"{vocabulary} classes at {level} for {target}: {done.stderr.strip().splitlines()[-1:]}")
t.finish()
