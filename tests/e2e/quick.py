"""A short run from start to end: the files that it leaves, and how data reach the model."""
import numpy as np

import common

t = common.Context()
KEYS = {"step", "loss", "lr", "grad_norm", "tokens", "tokens_per_second", "seconds", "skipped"}
plan = t.gpt_bytes("plan", "--level", "fp32")
base = ["--steps", 6, "--lr", "1e-3", "--seed", 3]

rows = t.train(plan, "log", *base, "--schedule", "linear", "--warmup", 2, "--save", t.work / "saved.safetensors")
t.expect([row["step"] for row in rows] == [1, 2, 3, 4, 5, 6], "a line a step")
t.expect(all(KEYS <= row.keys() for row in rows), "with all keys")
t.expect(np.allclose([row["lr"] for row in rows], [5e-4, 1e-3, 1e-3, 7.75e-4, 5.5e-4, 3.25e-4]), f"rates as documented: {[row['lr'] for row in rows]}")
t.expect(rows[-1]["loss"] < rows[0]["loss"], "the loss falls")
t.expect(all(row["tokens"] == 2048 and row["skipped"] == 0 for row in rows), "tokens of the global batch")

saved = common.read_safetensors(t.work / "saved.safetensors")
reference = common.read_safetensors(common.MODELS / "gpt_bytes.ref.safetensors")
names = {k[5:]: v.shape for k, v in reference.items() if k.startswith("grad.")}
t.expect(names == {k: saved[k].shape for k in names if k in saved}, "all parameters are saved by ONNX name")
t.expect(all(v.dtype == np.float32 and np.isfinite(v).all() for v in saved.values()), "in finite FP32")

# The same tokens as bytes, u16 and u32 give the same run; so does the same seed, and another seed does not.
first = common.losses(rows)
again = dict(schedule=["--schedule", "linear", "--warmup", 2])["schedule"]
text = np.frombuffer(t.corpus().read_bytes(), np.uint8)
text.astype("<u2").tofile(t.work / "tokens.bin")
text.astype("<u4").tofile(t.work / "tokens32.bin")
same = common.losses(t.train(plan, "u16", *base, *again, data=t.work / "tokens.bin"))
t.expect((same == first).all(), ".bin is u16 unless said otherwise")
same = common.losses(t.train(plan, "u32", *base, *again, "--data-type", "u32", data=t.work / "tokens32.bin"))
t.expect((same == first).all(), "--data-type u32")
same = common.losses(t.train(plan, "named", *base, *again, data=f"input_ids={t.corpus()}"))
t.expect((same == first).all(), "NAME=FILE with tokens feeds the labels too")
other = common.losses(t.train(plan, "seed", "--steps", 6, "--lr", "1e-3", "--seed", 4, *again))
t.expect((other != first).all(), "another seed gives other weights and windows")

# A plan for more targets trains on the CPU as one for it alone.
both = t.work / "both"
t.run("msampc", common.MODELS / "gpt_bytes.onnx", "-o", both, "--dim", "batch=16", "--dim", "seq=128", "--init", "normal:0.02",
      "--level", "fp32", "--target", "sm_80,cpu")
same = common.losses(t.train(both, "both.log", *base, *again))
t.expect((same == first).all(), "of several targets the one that fits runs, to the same losses")

# Arrays by input name. One sample only: every row of every batch is that one, whatever the seed says.
ids = text[:128][None].astype(np.int64)
labels = text[1:129][None].astype(np.int64)
np.save(t.work / "ids.npy", ids.astype(np.int32))
np.save(t.work / "labels.npy", labels)
common.write_safetensors(t.work / "both.safetensors", {"input_ids": ids, "labels": labels})
(t.work / "window.txt").write_bytes(text[:129].tobytes())
arrays = common.losses(t.train(plan, "npy", *base, "--data", f"labels={t.work / 'labels.npy'}", data=f"input_ids={t.work / 'ids.npy'}"))
tensors = common.losses(t.train(plan, "safetensors", *base, data=t.work / "both.safetensors"))
window = common.losses(t.train(plan, "window", *base, data=t.work / "window.txt"))
t.expect((arrays == tensors).all() and (arrays == window).all(), ".npy, .safetensors and a file of one window agree")
ignored = labels.copy()
ignored[:, ::2] = -100
np.save(t.work / "ignored.npy", ignored)
partly = common.losses(t.train(plan, "ignored", *base, "--data", f"labels={t.work / 'ignored.npy'}", data=f"input_ids={t.work / 'ids.npy'}"))
t.expect(np.isfinite(partly).all() and partly[0] != arrays[0], "labels of -100 are ignored")
t.finish()
