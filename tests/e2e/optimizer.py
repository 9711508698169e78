"""Training in FP32 is what NumPy in FP64 makes of the same data: gradients, clipping, AdamW, Adam, SGD, step by step."""
import numpy as np

import common
import numpy_gpt

t = common.Context(("--steps", "10"))
seed = 1
data = np.frombuffer(t.corpus().read_bytes(), np.uint8)


def simulate(weights, rows, optimizer, decay=0.1, beta1=0.9, beta2=0.95, eps=1e-8):
    w = {k: v.astype(np.float64) for k, v in weights.items()}
    m = {k: np.zeros_like(v) for k, v in w.items()}
    v = {k: np.zeros_like(x) for k, x in w.items()}
    losses, norms = [], []
    for step, row in enumerate(rows):
        loss, grads = numpy_gpt.loss_and_gradients(w, *numpy_gpt.batch(data, step, seed))
        norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
        losses.append(loss)
        norms.append(norm)
        lr, factor = row["lr"], min(1, 1 / norm)
        for k in w:
            g = grads[k] * factor
            if optimizer == "sgd":  # PyTorch's, with momentum beta1 and decay in the gradient
                g = g + decay * w[k]
                m[k] = beta1 * m[k] + g
                w[k] -= lr * m[k]
                continue
            if optimizer == "adam":
                g = g + decay * w[k]
            else:
                w[k] *= 1 - lr * decay
            m[k] = beta1 * m[k] + (1 - beta1) * g
            v[k] = beta2 * v[k] + (1 - beta2) * g**2
            w[k] -= lr * m[k] / (1 - beta1**(step + 1)) / (np.sqrt(v[k] / (1 - beta2**(step + 1))) + eps)
    return np.array(losses), np.array(norms), w


for optimizer in ("adamw", "adam", "sgd"):
    plan = t.gpt_bytes("plan", "--level", "fp32", "--optimizer", optimizer)
    start = t.work / "start.safetensors"
    t.run("msamp-run", plan, "--data", t.corpus(), "--steps", 1, "--lr", 0, "--seed", seed, "--save", start)
    end = t.work / "end.safetensors"
    # The others share all but the last formula with the first.
    steps = int(t.args.steps) if optimizer == "adamw" else 4
    rows = t.train(plan, "log", "--steps", steps, "--seed", seed, "--lr", "1e-3", "--warmup", 5, "--save", end)
    losses, norms, weights = simulate(common.read_safetensors(start), rows, optimizer)
    difference = np.abs(common.losses(rows) / losses - 1).max()
    t.expect(difference < 1e-5, f"{optimizer}: losses agree to {difference:.1e} over {steps} steps")
    difference = np.abs(np.array([row["grad_norm"] for row in rows]) / norms - 1).max()
    t.expect(difference < 1e-4, f"{optimizer}: gradient norms agree to {difference:.1e}")
    saved = common.read_safetensors(end)
    for k in weights:
        if k.endswith("qkv.bias"):  # the gradient of a key's bias is zero: what Adam makes of its noise says nothing
            saved[k] = np.delete(saved[k], np.s_[128:256])
            weights[k] = np.delete(weights[k], np.s_[128:256])
    difference = max(np.linalg.norm(saved[k] - weights[k]) / np.linalg.norm(weights[k]) for k in weights)
    t.expect(saved.keys() == weights.keys() and difference < 1e-3, f"{optimizer}: weights agree to {difference:.1e}")
t.finish()
