"""What a run says of itself: losses of nothing, steps that changed nothing, earlier metrics, and the units of its speed."""
import json

import numpy as np

import common
import onnx_writer as ox

t = common.Context()
rng = np.random.default_rng(0)
FEATURES, SAMPLES = 16, 64

# An autoencoder of vectors: no tokens, and labels of as many values as the input.
model = t.work / "autoencoder.onnx"
model.write_bytes(ox.model(
    [ox.node("MatMul", ["x", "down"], ["h"]), ox.node("Tanh", ["h"], ["a"]), ox.node("MatMul", ["a", "up"], ["y"])],
    [ox.value("x", ox.FLOAT, [4, FEATURES])], [ox.value("y", ox.FLOAT, [4, FEATURES])],
    [ox.tensor("down", rng.normal(0, 0.3, (FEATURES, 8)).astype(np.float32)),
     ox.tensor("up", rng.normal(0, 0.3, (8, FEATURES)).astype(np.float32))]))
plan = t.compile(model, "plan", "--level", "fp32", "--loss", "mse")


def samples(name, broken):
    """Samples of which the first ones are not finite."""
    values = rng.normal(0, 1, (SAMPLES, FEATURES)).astype(np.float32)
    values[:broken] = np.nan
    common.write_safetensors(t.work / name, {"x": values, "labels": np.nan_to_num(values)})
    return t.work / name


def train(data, log, *arguments, **keywords):
    return t.run("msamp-run", plan, "--data", data, "--steps", 40, "--log-dir", t.work / log, *arguments, **keywords)


# --- a loss of nothing
blank = t.work / "classes.onnx"
blank.write_bytes(ox.model(
    [ox.node("MatMul", ["x", "w"], ["y"])], [ox.value("x", ox.FLOAT, [4, FEATURES])], [ox.value("y", ox.FLOAT, [4, 5])],
    [ox.tensor("w", rng.normal(0, 0.3, (FEATURES, 5)).astype(np.float32))]))
classes = t.compile(blank, "classes", "--level", "fp32")
for label, told in ((-100, True), (3, False)):
    common.write_safetensors(t.work / "blank.safetensors", {
        "x": rng.normal(0, 1, (8, FEATURES)).astype(np.float32), "labels": np.full(8, label, np.int64)})
    done = t.run("msamp-run", classes, "--data", t.work / "blank.safetensors", "--steps", 3)
    t.expect(("exactly 0 in all 3 steps" in done.stderr) == told, f"labels of {label}: {done.stderr.strip() or 'nothing is said'}")

# --- steps that are skipped
good = train(samples("good.safetensors", 0), "good")
t.expect(not good.stderr and "skipped" not in good.stdout, "a run without skipped steps says nothing of them")
some = train(samples("some.safetensors", 3), "some")
skipped = [row["skipped"] for row in common.metrics(t.work / "some")]
t.expect(set(skipped) == {0, 1} and len(skipped) == 40, f"{sum(skipped)} of 40 steps are skipped, each with a 1 in its metrics")
t.expect(f"{sum(skipped)} of 40 steps were skipped" in some.stderr and "not finite" in some.stderr, f"the end warns of them: {some.stderr.strip()}")
t.expect(f"{sum(skipped)} skipped so far" in some.stdout.splitlines()[-1], "the line on the screen counts them")
for ranks in (1, 2):
    saved = t.work / f"none.{ranks}.safetensors"
    none = train(samples("none.safetensors", SAMPLES), "none", "--nproc", ranks, "--save", saved, expect=65)
    t.expect("none of 40 steps changed the weights" in none.stderr and "--lr" in none.stderr and str(saved) in none.stderr,
             f"{ranks} ranks: where all steps are skipped, the run fails: {none.stderr.strip()}")
    kept = common.read_safetensors(saved)
    t.expect(all(np.isfinite(v).all() for v in kept.values()), f"{ranks} ranks: the weights are saved as they were")

# --- metrics of an earlier run
before = (t.work / "good/metrics.jsonl").read_bytes()
again = train(t.work / "good.safetensors", "good", "--seed", 5)
kept = t.work / "good/metrics.1.jsonl"
t.expect(kept.read_bytes() == before and str(kept) in again.stdout, "the metrics of an earlier run are kept, and the run says where")
t.expect(len(common.metrics(t.work / "good")) == 40 and (t.work / "good/metrics.jsonl").read_bytes() != before, "beside its own")

# --- units
t.expect("samples/s" in good.stdout and "tok/s" not in good.stdout, "a model that reads no tokens counts samples")
t.expect(all(row["tokens"] == 4 for row in common.metrics(t.work / "good")), "a batch of 4 samples is 4 samples, whatever their size")
bench = t.run("msamp-bench", plan, "--steps", 2, "--json")
r = json.loads(bench.stdout)
t.expect(r["unit"] == "samples" and r["tokens_per_step"] == 4, f"msamp-bench counts {r['tokens_per_step']} {r['unit']}")
t.expect("samples/s" in bench.stderr and "tokens" not in bench.stderr, "and prints samples")
t.finish()
