"""A small network with every kind of window: outputs and gradients of each parameter are those of NumPy in FP64, whose gradients
are differences of losses; at every level it trains."""
import json

import numpy as np

import common
import onnx_writer as ox

t = common.Context()
rng = np.random.default_rng(0)
BATCH, CLASSES, EPS = 3, 7, 1e-5


def normal(*shape):
    return rng.normal(0, 1 / np.sqrt(max(1, np.prod(shape[1:]))), shape).astype(np.float32)


weights = {
    "stem.weight": normal(8, 3, 3, 3), "stem.bias": normal(8), "stem.norm.scale": 1 + normal(8) / 9, "stem.norm.shift": normal(8),
    "depthwise.weight": normal(8, 1, 3, 3), "grouped.weight": normal(6, 4, 2, 2), "grouped.bias": normal(6),
    "mid.norm.scale": 1 + normal(6) / 9, "mid.norm.shift": normal(6),
    "up.weight": normal(6, 4, 3, 2), "up.bias": normal(4), "up.norm.scale": 1 + normal(4) / 9, "up.norm.shift": normal(4),
    "mix.weight": normal(5, 4, 1, 1), "head.weight": normal(CLASSES, 5), "head.bias": normal(CLASSES),
    "temper": np.array(1.2, np.float32)}
statistics = {"stem.norm.mean": normal(8), "stem.norm.var": 1 + abs(normal(8)), "up.norm.mean": normal(4), "up.norm.var": 1 + abs(normal(4))}
constants = {"twice": np.array([1, 1, 2, 2], np.float32), "size": np.array([BATCH, 4, 5, 9], np.int64)}
nodes = [
    ox.node("Conv", ["x", "stem.weight", "stem.bias"], ["s0"], strides=[2, 2], pads=[1, 0, 1, 2]),
    ox.node("BatchNormalization", ["s0", "stem.norm.scale", "stem.norm.shift", "stem.norm.mean", "stem.norm.var"],
            ["s1", "running_mean", "running_var"], training_mode=1),
    ox.node("Relu", ["s1"], ["s2"]),
    ox.node("Conv", ["s2", "depthwise.weight"], ["d"], group=8, auto_pad="SAME_UPPER"),
    ox.node("Conv", ["d", "grouped.weight", "grouped.bias"], ["g0"], group=2, dilations=[2, 2], pads=[1, 1, 1, 1]),
    ox.node("GroupNormalization", ["g0", "mid.norm.scale", "mid.norm.shift"], ["gn"], num_groups=3),
    ox.node("Tanh", ["gn"], ["g1"]),
    ox.node("MaxPool", ["g1"], ["m"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
    ox.node("ConvTranspose", ["m", "up.weight", "up.bias"], ["u0"], strides=[2, 1], pads=[1, 0, 1, 0], output_padding=[1, 0]),
    ox.node("BatchNormalization", ["u0", "up.norm.scale", "up.norm.shift", "up.norm.mean", "up.norm.var"], ["u1"]),
    ox.node("AveragePool", ["u1"], ["a"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 1, 0]),
    ox.node("Resize", ["a", "", "twice"], ["r0"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    ox.node("Resize", ["r0", "", "", "size"], ["r1"], mode="linear"),
    ox.node("Conv", ["r1", "mix.weight"], ["c"]),
    ox.node("GlobalAveragePool", ["c"], ["p"]),
    ox.node("Flatten", ["p"], ["f"]),
    ox.node("Gemm", ["f", "head.weight", "head.bias"], ["h"], transB=1),
    ox.node("Mul", ["h", "temper"], ["logits"])]  # a parameter by what is noted of it alone


def taps(x, size, strides, low, high, dilations, fill=0.0):
    """Of each window one tap after the other, as images."""
    x = np.pad(x, ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1])), constant_values=fill)
    counts = [(x.shape[2 + d] - (size[d] - 1) * dilations[d] - 1) // strides[d] + 1 for d in range(2)]
    for i in range(size[0]):
        for j in range(size[1]):
            a, b = i * dilations[0], j * dilations[1]
            yield i, j, x[:, :, a:a + (counts[0] - 1) * strides[0] + 1:strides[0], b:b + (counts[1] - 1) * strides[1] + 1:strides[1]]


def conv(x, w, strides=(1, 1), low=(0, 0), high=(0, 0), dilations=(1, 1), groups=1):
    n, out = x.shape[0], w.shape[0] // groups
    y = 0
    for i, j, part in taps(x, w.shape[2:], strides, low, high, dilations):
        grouped = part.reshape(n, groups, -1, *part.shape[2:])
        y = y + np.einsum("ngchw,goc->ngohw", grouped, w[:, :, i, j].reshape(groups, out, -1))
    return y.reshape(n, groups * out, *y.shape[3:])


def normalise(x, mean, var, scale, shift):
    c = (1, -1, 1, 1)
    return (x - mean.reshape(c)) / np.sqrt(var.reshape(c) + EPS) * scale.reshape(c) + shift.reshape(c)


def lerp(x, axis, size):
    """Linear interpolation between the middles of pixels."""
    at = np.clip((np.arange(size) + 0.5) * x.shape[axis] / size - 0.5, 0, x.shape[axis] - 1)
    low = np.minimum(at.astype(int), x.shape[axis] - 2)
    part = (at - low).reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    return np.take(x, low, axis) * (1 - part) + np.take(x, low + 1, axis) * part


def forward(w, x):
    y = conv(x, w["stem.weight"], (2, 2), (1, 0), (1, 2)) + w["stem.bias"].reshape(1, -1, 1, 1)
    y = normalise(y, y.mean((0, 2, 3)), y.var((0, 2, 3)), w["stem.norm.scale"], w["stem.norm.shift"])
    y = conv(np.maximum(y, 0), w["depthwise.weight"], low=(1, 1), high=(1, 1), groups=8)
    y = conv(y, w["grouped.weight"], low=(1, 1), high=(1, 1), dilations=(2, 2), groups=2) + w["grouped.bias"].reshape(1, -1, 1, 1)
    groups = y.reshape(len(y), 3, -1)  # two channels each
    groups = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + EPS)
    y = np.tanh(groups.reshape(y.shape) * w["mid.norm.scale"].reshape(1, -1, 1, 1) + w["mid.norm.shift"].reshape(1, -1, 1, 1))
    # 6 x 5 positions: the last of four windows begins at 5 and leaves the padding.
    y = np.max([part for _, _, part in taps(y, (3, 3), (2, 2), (1, 1), (2, 1), (1, 1), -np.inf)], axis=0)
    # The transpose: zeros between the positions, the filter turned around.
    spread = np.zeros((*y.shape[:2], 2 * y.shape[2] - 1, y.shape[3]))
    spread[:, :, ::2] = y
    turned = w["up.weight"].transpose(1, 0, 2, 3)[:, :, ::-1, ::-1]
    y = conv(spread, turned, low=(1, 1), high=(2, 1)) + w["up.bias"].reshape(1, -1, 1, 1)
    y = normalise(y, statistics["up.norm.mean"], statistics["up.norm.var"], w["up.norm.scale"], w["up.norm.shift"])
    window = ((3, 2), (2, 1), (1, 1), (1, 0), (1, 1))
    y = sum(part for _, _, part in taps(y, *window)) / sum(part for _, _, part in taps(np.ones_like(y), *window))
    y = lerp(lerp(y.repeat(2, 2).repeat(2, 3), 2, 5), 3, 9)
    return (conv(y, w["mix.weight"]).mean((2, 3)) @ w["head.weight"].T + w["head.bias"]) * w["temper"]


def loss(w, x, labels, forward=forward):
    logits = forward(w, x)
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]))


def gradients(w, x, labels, step=1e-5, forward=forward):
    w = {k: v.astype(np.float64) for k, v in w.items()}
    result = {}
    for name, values in w.items():
        grad = np.zeros_like(values)
        for i in np.ndindex(values.shape):
            kept = values[i]
            values[i] = kept + step
            above = loss(w, x, labels, forward)
            values[i] = kept - step
            grad[i] = (above - loss(w, x, labels, forward)) / (2 * step)
            values[i] = kept
        result[f"grad.{name}"] = grad.astype(np.float32)
    return result


x = rng.normal(0, 1, (BATCH, 3, 11, 10)).astype(np.float32)
labels = np.array([1, 5, 3], np.int64)
reference = t.work / "ref.safetensors"
common.write_safetensors(reference, {
    "in.x": x, "in.labels": labels, "out.logits": forward(weights, x.astype(np.float64)).astype(np.float32),
    "out.loss": np.array([loss(weights, x.astype(np.float64), labels)], np.float32), **gradients(weights, x.astype(np.float64), labels)})
model = t.work / "convnet.onnx"
model.write_bytes(ox.model(nodes, [ox.value("x", ox.FLOAT, x.shape)], [ox.value("logits", ox.FLOAT, [BATCH, CLASSES])],
                           [ox.tensor(k, v) for k, v in {**weights, **statistics, **constants}.items()], opset=21,
                           values=[ox.noted("temper", "PARAMETER")]))
samples = t.work / "samples.safetensors"
common.write_safetensors(samples, {"x": x, "labels": labels})

for level in ("fp32", "bf16", "O1", "O2", "O3"):
    plan = t.compile(model, f"plan-{level}", "--level", level)
    done = t.run("msamp-run", plan, "--check", reference, expect=None)
    worst = next((line for line in done.stdout.splitlines() if line.startswith(("grad.", "out."))), done.stderr.strip())
    t.expect(done.returncode == 0, f"{level}: check; worst: {' '.join(worst.split())}")
    if done.returncode != 0:
        print(done.stdout[-4000:])
    rows = t.train(plan, f"log-{level}", "--steps", 60, "--lr", "2e-2", "--seed", 1, data=samples)
    losses = common.losses(rows)
    t.expect(losses[-1] < 0.3 * losses[0], f"{level}: the loss falls from {losses[0]:.3f} to {losses[-1]:.3f}")

# Running statistics: with a rate of 0 and equal samples each micro-batch has the same ones, towards which they go.
same = t.work / "same.safetensors"
common.write_safetensors(same, {"x": np.repeat(x[:1], 4, 0), "labels": np.repeat(labels[:1], 4)})
batch = np.repeat(x[:1], BATCH, 0).astype(np.float64)
seen = conv(batch, weights["stem.weight"], (2, 2), (1, 0), (1, 2)) + weights["stem.bias"].reshape(1, -1, 1, 1)
seen = {"mean": seen.mean((0, 2, 3)), "var": seen.var((0, 2, 3))}


def after(name, moves, momentum=0.9, start=None):
    old = statistics[f"stem.norm.{name}"] if start is None else start
    return momentum ** moves * old + (1 - momentum ** moves) * seen[name]


def tracked(case, arguments, run, moves, tolerance, start=None):
    plan = t.compile(model, f"tracked-{case}", *arguments)
    saved = t.work / f"tracked-{case}.safetensors"
    t.train(plan, f"log-tracked-{case}", "--steps", 5, "--lr", 0, "--save", saved, *run, data=same)
    values = common.read_safetensors(saved)
    for i, name in enumerate(("mean", "var")):
        expected = after(name, moves, start=None if start is None else start[i])
        error = np.abs(values[f"stem.norm.{name}"] - expected).max() / np.abs(expected).max()
        t.expect(error < tolerance, f"running statistics, {case}: {name} is the {moves}-fold move towards the batch's to {error:.1e}")
    return values


# FP32 sums of 90 values; at other levels what is normalised is BF16, which has 8 bits.
for level, tolerance in (("fp32", 1e-5), ("bf16", 1e-2), ("O3", 1e-2)):
    values = tracked(level, ["--level", level], [], 5, tolerance)
    t.expect(np.array_equal(values["up.norm.mean"], statistics["up.norm.mean"]), f"{level}: statistics that the model normalises by are saved as they are")
tracked("accumulated", ["--level", "fp32", "--accumulate", 2], [], 10, 1e-5)
tracked("ranks", ["--level", "fp32"], ["--nproc", 2], 5, 1e-5)
# Of other samples a rank, rank 0's are saved: after one step what one rank has of the first micro-batch.
plan = t.work / "tracked-ranks"
for ranks in (1, 2):
    t.train(plan, f"log-first-{ranks}", "--steps", 1, "--lr", 0, "--nproc", ranks, "--save", t.work / f"first-{ranks}.safetensors", data=samples)
one, two = (common.read_safetensors(t.work / f"first-{ranks}.safetensors") for ranks in (1, 2))
t.expect(all(np.array_equal(one[name], two[name]) for name in one), "of two ranks with different samples, the first one's statistics are saved")
# A channel that overflows keeps both of its statistics; the others move.
spoilt = np.repeat(x[:1], 2, 0)
spoilt[:, 0, 0, 0] = 1e30
overflowing = t.work / "overflowing.safetensors"
common.write_safetensors(overflowing, {"x": spoilt, "labels": np.repeat(labels[:1], 2)})
t.run("msamp-run", plan, "--data", overflowing, "--steps", 2, "--lr", 0, "--save", t.work / "overflown.safetensors", expect=None)
values = common.read_safetensors(t.work / "overflown.safetensors")
stayed = [np.isclose(values[f"stem.norm.{name}"], statistics[f"stem.norm.{name}"], rtol=1e-6) for name in ("mean", "var")]
t.expect(stayed[0].all() and stayed[1].all() and np.isfinite(values["stem.norm.mean"]).all(), "of channels that overflow neither statistic moves")
forced = tracked("forced", ["--level", "fp32", "--batch-norm", "batch"], [], 5, 1e-5)
t.expect(not np.allclose(forced["up.norm.mean"], statistics["up.norm.mean"], atol=1e-3), "--batch-norm batch: those of a node in inference mode move")
mlir = t.run("msampc", model, "--batch-norm", "batch", "--compile-to", "import", "-o", t.work / "import.mlir")
t.expect("warning" not in mlir.stderr and (t.work / "import.mlir").read_text().count("msamp.track @") == 4, "--batch-norm batch: four are tracked")
frozen = t.run("msampc", model, "--freeze", "norm[.](mean|var)", "--compile-to", "import", "-o", t.work / "import.mlir").stderr
t.expect("warning" not in frozen and "msamp.track" not in (t.work / "import.mlir").read_text(), f"--freeze keeps them: {frozen.strip()}")
t.run("msampc", model, "--freeze", "up[.]norm", "--train", "norm", "--batch-norm", "batch", "--compile-to", "import", "-o", t.work / "import.mlir")
t.expect((t.work / "import.mlir").read_text().count("msamp.track @") == 4, "--train goes before --freeze for statistics, too")
t.run("msampc", model, "--freeze", "up[.]norm", "--batch-norm", "batch", "--compile-to", "import", "-o", t.work / "import.mlir")
t.expect((t.work / "import.mlir").read_text().count("msamp.track @") == 2, "--batch-norm batch leaves nodes alone whose statistics are frozen")
plan = t.compile(model, "trained", "--level", "fp32", "--train", ".")
kinds = {p["name"]: p["kind"] for p in json.loads(t.run("msamp-inspect", plan, "--format", "json").stdout)["parameters"]}
t.expect(kinds["stem.norm.mean"] == "tracked" and kinds["up.norm.mean"] == "frozen" and kinds["up.norm.scale"] == "trained",
         "--train trains no statistics by their gradients")
# Drawn weights start from a mean of 0 and a variance of 1, which no batch of 0 changes but towards 0.
zeros = t.work / "zeros.safetensors"
common.write_safetensors(zeros, {"x": np.zeros_like(x), "labels": labels})
plan = t.compile(model, "tracked-drawn", "--level", "fp32", "--init", "normal:0.02", "--batch-norm", "batch")
t.train(plan, "log-drawn", "--steps", 3, "--lr", 0, "--save", t.work / "drawn.safetensors", data=zeros)
values = common.read_safetensors(t.work / "drawn.safetensors")
t.expect(np.allclose(values["stem.norm.mean"], 0) and np.allclose(values["stem.norm.var"], 0.9 ** 3), "drawn: they start from 0 and 1")

# Values far from 0: sums of squares around 0 would leave a variance of 1 +- 0.06 of them.
far_weights = {"scale": 1 + normal(3) / 9, "shift": normal(3), "weight": normal(CLASSES, 3), "bias": normal(CLASSES)}
far = (1000 + rng.normal(0, 1, (BATCH, 3, 6, 5))).astype(np.float32)


def far_logits(w, x):
    y = normalise(x, x.mean((0, 2, 3)), x.var((0, 2, 3)), w["scale"], w["shift"])
    return np.maximum(y, 0).mean((2, 3)) @ w["weight"].T + w["bias"]


x64 = far.astype(np.float64)
reference = t.work / "far.safetensors"
common.write_safetensors(reference, {
    "in.x": far, "in.labels": labels, "out.logits": far_logits(far_weights, x64).astype(np.float32),
    "out.loss": np.array([loss(far_weights, x64, labels, far_logits)], np.float32), **gradients(far_weights, x64, labels, forward=far_logits)})
model = t.work / "far.onnx"
far_nodes = [ox.node("BatchNormalization", ["x", "scale", "shift", "mean", "var"], ["n"], training_mode=1), ox.node("Relu", ["n"], ["r"]),
             ox.node("GlobalAveragePool", ["r"], ["p"]), ox.node("Flatten", ["p"], ["f"]),
             ox.node("Gemm", ["f", "weight", "bias"], ["logits"], transB=1)]
model.write_bytes(ox.model(far_nodes, [ox.value("x", ox.FLOAT, far.shape)], [ox.value("logits", ox.FLOAT, [BATCH, CLASSES])],
                           [ox.tensor(k, v) for k, v in {**far_weights, "mean": np.zeros(3, np.float32), "var": np.ones(3, np.float32)}.items()],
                           opset=21))
done = t.run("msamp-run", t.compile(model, "plan-far", "--level", "fp32"), "--check", reference, expect=None)
t.expect(done.returncode == 0, "values far from 0 are normalised as precisely")
if done.returncode != 0:
    print(done.stdout[-4000:])
t.finish()
