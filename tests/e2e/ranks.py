"""Ranks, micro-batches and ZeRO change where work is done, not what comes out; and the same run gives the same bits."""
import numpy as np

import common

t = common.Context(("--levels", "fp32,bf16,O1,O2,O3"), ("--steps", "20"))
steps = int(t.args.steps)
arguments = ["--steps", steps, "--lr", "1e-3", "--warmup", 50]


def run(plan, log, *more):
    save = t.work / f"{log}.safetensors"
    rows = t.train(plan, log, *arguments, *more, "--save", save)
    return common.losses(rows), common.read_safetensors(save), rows


def same_weights(a, b):
    return a.keys() == b.keys() and all((a[k].view(np.uint32) == b[k].view(np.uint32)).all() for k in a)


for level in t.args.levels.split(","):
    one = t.gpt_bytes("plan.accumulate2", "--level", level, "--accumulate", 2)
    two = t.gpt_bytes("plan.zero0", "--level", level)
    sharded = t.gpt_bytes("plan.zero1", "--level", level, "--zero", 1)
    loss_one, _, rows_one = run(one, "one")
    loss_two, weights_two, rows_two = run(two, "two", "--nproc", 2)
    loss_again, weights_again, _ = run(two, "again", "--nproc", 2)
    loss_sharded, weights_sharded, _ = run(sharded, "sharded", "--nproc", 2)

    difference = np.abs(loss_two / loss_one - 1).max()
    # Gradients are rounded before they are added between ranks, after it within one; fp32 has no such rounding.
    bound = 1e-5 if level == "fp32" else 1e-3 if level == "bf16" else 1e-2
    t.expect(difference < bound, f"{level}: two ranks give one rank's losses: at most {difference:.2e} apart")
    t.expect([r["tokens"] for r in rows_two] == [r["tokens"] for r in rows_one] == [2 * 16 * 128] * steps,
             f"{level}: tokens are the whole global batch's")
    t.expect((loss_two == loss_again).all() and same_weights(weights_two, weights_again),
             f"{level}: the same run twice gives the same bits")
    if level == "fp32":
        t.expect((loss_two == loss_sharded).all() and same_weights(weights_two, weights_sharded),
                 "fp32: ZeRO 1 equals ZeRO 0 bit for bit")
    else:
        difference = np.abs(loss_sharded / loss_two - 1).max()
        t.expect(difference < 2e-2, f"{level}: ZeRO 1 gives ZeRO 0's losses: at most {difference:.2e} apart")
t.finish()
