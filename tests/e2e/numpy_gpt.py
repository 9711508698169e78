"""The byte-level GPT of tests/models in NumPy and FP64: loss, gradients and data, written down independently."""
import numpy as np

# qkv, projection, up and down of each block: the exporter's names for the transposed weights.
BLOCKS = [("val_8", "val_82", "val_86", "val_100"), ("val_104", "val_175", "val_179", "val_193"),
          ("val_197", "val_268", "val_272", "val_286"), ("val_290", "val_361", "val_365", "val_379")]
HEADS, WIDTH = 4, 128
MASK64 = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def batch(data, step, seed, rows=16, length=128):
    """Inputs and labels of a step with one micro-batch."""
    starts = [(mix(mix(seed) ^ (step * rows + row)) * (len(data) - length)) >> 64 for row in range(rows)]
    windows = np.stack([data[s:s + length + 1] for s in starts]).astype(np.int64)
    return windows[:, :-1], windows[:, 1:]


def normalise(x):
    centred = x - x.mean(-1, keepdims=True)
    r = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return centred * r, r


def loss_and_gradients(w, ids, labels):
    b, t = ids.shape
    c = np.sqrt(2 / np.pi)
    flat = lambda y: y.reshape(-1, y.shape[-1])
    causal = np.tril(np.ones((t, t), bool))
    x = w["m.head.weight"][ids] + w["m.wpe.weight"][:t]
    kept = []
    for i, (qkv, proj, up, down) in enumerate(BLOCKS):
        p = f"m.blocks.{i}."
        n1, r1 = normalise(x)
        a1 = n1 * w[p + "ln_1.weight"] + w[p + "ln_1.bias"]
        q, k, v = (a1 @ w[qkv] + w[p + "qkv.bias"]).reshape(b, t, 3, HEADS, -1).transpose(2, 0, 3, 1, 4)
        scores = np.where(causal, q @ k.transpose(0, 1, 3, 2) / np.sqrt(WIDTH // HEADS), -np.inf)
        probabilities = np.exp(scores - scores.max(-1, keepdims=True))
        probabilities /= probabilities.sum(-1, keepdims=True)
        o = (probabilities @ v).transpose(0, 2, 1, 3).reshape(b, t, WIDTH)
        x = x + o @ w[proj] + w[p + "proj.bias"]
        n2, r2 = normalise(x)
        a2 = n2 * w[p + "ln_2.weight"] + w[p + "ln_2.bias"]
        z = a2 @ w[up] + w[p + "up.bias"]
        th = np.tanh(c * (z + 0.044715 * z**3))
        g = 0.5 * z * (1 + th)
        x = x + g @ w[down] + w[p + "down.bias"]
        kept.append((n1, r1, a1, q, k, v, probabilities, o, n2, r2, a2, z, th, g))
    nf, rf = normalise(x)
    f = nf * w["m.ln_f.weight"] + w["m.ln_f.bias"]
    logits = f @ w["m.head.weight"].T
    logits -= logits.max(-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    loss = -np.take_along_axis(logits, labels[..., None], -1).mean()

    grads = {}

    def norm_back(dy, n, r, name):
        grads[name + ".weight"] = (dy * n).sum((0, 1))
        grads[name + ".bias"] = dy.sum((0, 1))
        d = dy * w[name + ".weight"]
        return r * (d - d.mean(-1, keepdims=True) - n * (d * n).mean(-1, keepdims=True))

    dlogits = np.exp(logits)
    np.put_along_axis(dlogits, labels[..., None], np.take_along_axis(dlogits, labels[..., None], -1) - 1, -1)
    dlogits /= b * t
    grads["m.head.weight"] = flat(dlogits).T @ flat(f)
    dx = norm_back(dlogits @ w["m.head.weight"], nf, rf, "m.ln_f")
    for i in reversed(range(len(BLOCKS))):
        qkv, proj, up, down = BLOCKS[i]
        p = f"m.blocks.{i}."
        n1, r1, a1, q, k, v, probabilities, o, n2, r2, a2, z, th, g = kept[i]
        grads[p + "down.bias"], grads[down] = dx.sum((0, 1)), flat(g).T @ flat(dx)
        dz = (dx @ w[down].T) * (0.5 * (1 + th) + 0.5 * z * (1 - th**2) * c * (1 + 3 * 0.044715 * z**2))
        grads[p + "up.bias"], grads[up] = dz.sum((0, 1)), flat(a2).T @ flat(dz)
        dx = dx + norm_back(dz @ w[up].T, n2, r2, p + "ln_2")
        grads[p + "proj.bias"], grads[proj] = dx.sum((0, 1)), flat(o).T @ flat(dx)
        do = (dx @ w[proj].T).reshape(b, t, HEADS, -1).transpose(0, 2, 1, 3)
        dp = do @ v.transpose(0, 1, 3, 2)
        ds = probabilities * (dp - (dp * probabilities).sum(-1, keepdims=True)) / np.sqrt(WIDTH // HEADS)
        parts = np.stack([ds @ k, ds.transpose(0, 1, 3, 2) @ q, probabilities.transpose(0, 1, 3, 2) @ do])
        dh = parts.transpose(1, 3, 0, 2, 4).reshape(b, t, 3 * WIDTH)
        grads[p + "qkv.bias"], grads[qkv] = dh.sum((0, 1)), flat(a1).T @ flat(dh)
        dx = dx + norm_back(dh @ w[qkv].T, n1, r1, p + "ln_1")
    np.add.at(grads["m.head.weight"], ids, dx)
    grads["m.wpe.weight"] = np.zeros_like(w["m.wpe.weight"])
    grads["m.wpe.weight"][:t] = dx.sum(0)
    return loss, grads
