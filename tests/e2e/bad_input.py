"""Whatever is wrong with the input: a message that names the place, the right exit code, and nothing left behind."""
import ctypes
import hashlib
import os
import random
import re
import shutil
import stat
import subprocess
import sys

import numpy as np

import common
import onnx_writer as ox

t = common.Context()
GPT = (common.MODELS / "gpt_bytes.onnx").read_bytes()
BYTES = np.frombuffer(t.corpus().read_bytes(), np.uint8)
inputs = t.work / "inputs"
inputs.mkdir()


def put(name, content):
    path = inputs / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def case(name, command, codes, patterns, cwd_files=()):
    """Runs a command in an empty folder: the exit code is one of `codes`, standard error matches all patterns."""
    folder = t.work / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = [str(t.bin / command[0]), *map(str, command[1:])]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120)
    codes = codes if isinstance(codes, tuple) else (codes,)
    problems = []
    if done.returncode not in codes:
        problems.append(f"exit {done.returncode}, expected {codes}")
    for pattern in patterns:
        if not re.search(pattern, done.stderr, re.I | re.S):
            problems.append(f"no /{pattern}/ in the message")
    left = sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
    if left:
        problems.append(f"left behind: {left[:5]}")
    t.expect(not problems, f"{name}" + (f": {'; '.join(problems)}: {done.stderr.strip()[-700:]!r}" if problems else ""))


def msampc(model, *arguments):
    return ["msampc", model, "-o", "plan", *arguments]


BOUND = ["--dim", "batch=16", "--dim", "seq=128"]
GPT_FILE = common.MODELS / "gpt_bytes.onnx"

# --- models
case("no such model", msampc(inputs / "none.onnx"), 74, [r"none\.onnx"])
case("a folder as a model", msampc(inputs), (65, 74), ["inputs"])
case("not ONNX", msampc(put("text.onnx", b"hello, world\n" * 50)), 65, [r"text\.onnx"])
case("random bytes", msampc(put("random.onnx", random.Random(1).randbytes(5000))), 65, [r"random\.onnx"])
case("an empty model", msampc(put("empty.onnx", b"")), 65, [r"empty\.onnx", "empty"])
for share in (0.001, 0.1, 0.5, 0.9, 0.9999):
    cut = int(len(GPT) * share)
    case(f"a model cut at {cut} bytes", msampc(put("cut.onnx", GPT[:cut]), *BOUND), 65, [r"cut\.onnx"])

FC = [ox.node("MatMul", ["x", "w"], ["y"], "fc")]
XY = [ox.value("x", ox.FLOAT, [4, 8])], [ox.value("y", ox.FLOAT, [4, 16])]


def external(location, offset=0, length=8 * 16 * 4):
    return ox.model(FC, *XY, [ox.external_tensor("w", [8, 16], location, offset, length)])


MSE = ["--loss", "mse"]
case("external data that is missing", msampc(put("e1/m.onnx", external("gone.data")), *MSE), (65, 74), ["gone.data", "w"])
put("e2/short.data", bytes(100))
case("external data that is short", msampc(put("e2/m.onnx", external("short.data")), *MSE), 65, ["short.data", "w"])
put("secret.data", bytes(8 * 16 * 4))
case("external data out of the folder", msampc(put("e3/m.onnx", external("../secret.data")), *MSE), 65, [r"\.\./secret\.data"])
case("external data by absolute path", msampc(put("e4/m.onnx", external("/etc/passwd", 0, 512)), *MSE), 65, ["/etc/passwd"])
put("e5/m.onnx", external("link.data"))
os.symlink(inputs / "secret.data", inputs / "e5/link.data")
case("external data through a link out of the folder", msampc(inputs / "e5/m.onnx", *MSE), 65, [r"link\.data"])
case("external data beyond the file", msampc(put("e2/far.onnx", external("short.data", 1 << 62)), *MSE), 65, ["short.data"])
t.run("msampc", inputs / "e1/m.onnx", "-o", t.work / "initialised", *MSE, "--init", "normal:0.02")
print("ok    missing external data are needless with --init", flush=True)

case("unbound dimensions", msampc(GPT_FILE), 64, ["batch", "seq", r"--dim batch=", r"--dim seq="])
case("one unbound dimension", msampc(GPT_FILE, "--dim", "batch=2"), 64, [r"--dim seq="])
case("a dimension that is not there", msampc(GPT_FILE, *BOUND, "--dim", "sequence=4"), 64, ["sequence", "batch", "seq"])
for text in ("batch", "batch=", "batch=0", "batch=-3", "batch=x", "=4", "batch=99999999999999999999"):
    case(f"--dim {text}", msampc(GPT_FILE, "--dim", text, "--dim", "seq=8"), 64, ["dim"])
case("a sequence beyond the positions", msampc(GPT_FILE, "--dim", "batch=1", "--dim", "seq=4096"), (64, 65), ["256", "--dim"])

unknown = ox.model(
    [ox.node("MatMul", ["x", "w"], ["a"], "fc"), ox.node("Frobnicate", ["a"], ["b"], "first_odd", domain="com.example"),
     ox.node("Defrobnicate", ["b"], ["y"], "second_odd", domain="com.example")],
    *XY, [ox.tensor("w", np.ones((8, 16), np.float32))], domains=["com.example"])
case("unknown operators, all at once", msampc(put("odd.onnx", unknown), *MSE), 65, ["Frobnicate", "first_odd", "Defrobnicate", "second_odd", "no translation for this op"])
unsupported = ox.model(
    [ox.node("MatMul", ["x", "w"], ["a"], "fc"), ox.node("Det", ["a"], ["d"], "det_node"), ox.node("Hardmax", ["a"], ["y"], "hardmax_node")],
    *XY, [ox.tensor("w", np.ones((8, 16), np.float32))])
case("unsupported operators of ONNX", msampc(put("hard.onnx", unsupported), *MSE), 65, ["hardmax_node: Hardmax: no translation for this op"])

# --- flags of msampc
for flags in (["--level", "O4"], ["--level"], ["--recipe", "blocky"], ["--optimizer", "lion"], ["--loss", "hinge"], ["--init", "normal:x"],
              ["--init", "normal:-1"], ["--accumulate", "0"], ["--accumulate", "many"], ["--recompute", "some"], ["--zero", "7"],
              ["--memory=0"], ["--memory=x"], ["--freeze", "("], ["--no-such-flag"], ["--target", "tpu"], ["--target", "cpu,cpu"], ["--target", ""]):
    case("msampc " + " ".join(flags), msampc(GPT_FILE, *BOUND, *flags), 64, [flags[0].split("=")[0].lstrip("-")])
case("msampc without a model", ["msampc", "-o", "plan"], 64, [])
case("a loss on an output that is not there", msampc(GPT_FILE, *BOUND, "--loss", "output:nope"), (64, 65), ["nope"])
case("an output below a file", ["msampc", GPT_FILE, "-o", put("file", b"x") / "plan", *BOUND], 74, ["plan"])
case("an output in a folder that takes none", ["msampc", GPT_FILE, "-o", "/proc/plan", *BOUND], 74, ["/proc/plan"])

# --- data
plan = t.gpt_bytes("plan", "--level", "O2")
TEXT = t.corpus()


def run(*arguments, plan=plan):
    return ["msamp-run", plan, *arguments]


def save(name, array):
    np.save(inputs / name, array)
    return inputs / name


case("no such data", run("--data", inputs / "none.txt"), 74, [r"none\.txt"])
case("a folder as data", run("--data", inputs), (65, 74), ["inputs"])
case("no data", run(), 64, ["--data"])
case("data for an input that is not there", run("--data", f"tokens={TEXT}"), 64, ["tokens", "input_ids"])
case("data without labels", run("--data", f"input_ids={save('ids.npy', np.zeros((3, 128), np.int64))}"), 64, ["labels"])
case("data given twice", run("--data", f"input_ids={TEXT}", "--data", f"input_ids={TEXT}"), 64, ["input_ids"])
case("text shorter than a window", run("--data", put("short.txt", b"x" * 128)), 65, ["129", "128", r"short\.txt"])
case("empty text", run("--data", put("nothing.txt", b"")), 65, ["129", r"nothing\.txt"])
odd = BYTES[:4000].astype("<u2")
odd[1234] = 300
case("a token beyond the vocabulary", run("--data", put("big.bin", odd.tobytes())), 65, ["300", "2468", r"big\.bin", "256", "input_ids"])
case("a .bin of odd size", run("--data", put("odd.bin", b"x" * 4001)), 65, [r"odd\.bin", "4001", "--data-type u8"])
case("bytes in a .bin", run("--data", put("bytes.bin", b"text" * 1000)), 65, [r"bytes\.bin", "--data-type u8"])
labels = save("labels.npy", np.zeros((3, 128), np.int64))
for name, array, patterns in [
    ("shape", np.zeros((3, 64), np.int64), ["input_ids", "128", "64"]),
    ("rank", np.zeros((3,), np.int64), ["input_ids", "128"]),
    ("type", np.zeros((3, 128), np.float32), ["input_ids", "i64", "f32"]),
    ("range", np.full((3, 128), 999, np.int64), ["input_ids", "999", "256"]),
    ("sign", np.full((3, 128), -100, np.int64), ["input_ids", "-100"]),
    ("order", np.asfortranarray(np.zeros((3, 128), np.int64)), ["column"]),
    ("endian", np.zeros((3, 128), ">i8"), ["big-endian"]),
    ("count", np.zeros((4, 128), np.int64), ["4", "3"]),
    ("none", np.zeros((0, 128), np.int64), ["no samples"]),
]:
    file = save(f"{name}.npy", array)
    case(f"an array of another {name}", run("--data", f"input_ids={file}", "--data", f"labels={labels}"), 65, [r"\.npy", *patterns])
whole = (inputs / "ids.npy").read_bytes()
for cut in (0, 5, 9, 40, 500):
    case(f"an array cut at {cut} bytes", run("--data", f"input_ids={put('cut.npy', whole[:cut])}"), 65, [r"cut\.npy"])
case("safetensors that are none", run("--data", put("bad.safetensors", b"\xff" * 64)), 65, [r"bad\.safetensors"])
case("safetensors without the inputs", run("--data", common.MODELS / "gpt2.dynamo/ref.safetensors"), 65, ["ref.safetensors"])
case("--check with no such file", run("--check", inputs / "none.safetensors"), 74, [r"none\.safetensors"])
case("--check at another size", run("--check", common.MODELS / "gpt_bytes.ref.safetensors"), 65, ["input_ids", "128", "64"])
case("--save below a file", run("--data", TEXT, "--save", inputs / "file/x.safetensors"), 74, ["x.safetensors"])
case("--save into no folder", run("--data", TEXT, "--save", "none/x.safetensors"), 74, ["none"])
case("--save as a pickle", run("--data", TEXT, "--save", inputs / "weights.pt"), 64, ["weights.pt", "safetensors"])
case("--save to a folder", run("--data", TEXT, "--save", inputs), 74, ["folder"])
os.mkfifo(inputs / "no_file")
case("--save to a pipe", run("--data", TEXT, "--save", inputs / "no_file"), 74, ["no_file", "pipe"])
assert stat.S_ISFIFO(os.stat(inputs / "no_file").st_mode)
(inputs / "link").symlink_to("linked.safetensors")
subprocess.run([t.bin / "msamp-run", plan, "--data", TEXT, "--steps", "1", "--save", inputs / "link"], check=True, capture_output=True)
assert (inputs / "link").is_symlink() and (inputs / "linked.safetensors").stat().st_size > 1000, "a link's file is written, not the link"
case("--log-dir below a file", run("--data", TEXT, "--log-dir", inputs / "file/log"), 74, ["file/log"])

for key, value in [("fortran_order", "False"), ("shape", "(3, 128)")]:
    odd = whole.replace(value.encode(), {"False": b"Maybe", "(3, 128)": b"(3,-128)"}[value])
    case(f"an array with an odd {key}", run("--data", f"input_ids={put('odd.npy', odd)}"), 65, [r"odd\.npy", key])
case("an array of huge numbers", run("--data", f"input_ids={save('huge.npy', np.full((3, 128), 2**64 - 1, np.uint64))}"), 65, ["18446744073709551615"])
os.mkfifo(inputs / "pipe")
case("a pipe as data", run("--data", inputs / "pipe"), 74, ["not a regular file"])
for flag in ("--save", "--log-dir"):
    case(f"{flag} without a name", run("--data", TEXT, flag, ""), 64, [flag])

# --- flags of msamp-run
case("the number of a GPU as a device", run("--data", TEXT, "--device", "cuda:1"), 64, ["--device cuda:1", "--gpus 1", "CUDA_VISIBLE_DEVICES=1"])
case("a flag that is misspelt", run("--data", TEXT, "--stesp", "3"), 64, ["not expected: --stesp 3"])
for flags in (["--steps", "0"], ["--steps", "-1"], ["--steps", "x"], ["--steps", "1.5"], ["--lr", "abc"], ["--lr", "-1"], ["--lr", "nan"],
              ["--lr", "inf"], ["--lr", "1e999"], ["--lr", ""], ["--min-lr", "1"], ["--warmup", "-2"], ["--schedule", "square"], ["--beta1", "1"], ["--beta2", "-0.1"],
              ["--eps", "0"], ["--weight-decay", "-1"], ["--clip", "-1"], ["--seed", "x"], ["--seed", "99999999999999999999"], ["--device", "tpu"],
              ["--nproc", "0"], ["--nproc", "-1"], ["--nproc", "1000000"], ["--nproc", "two"], ["--data-type", "u64"],
              ["--rtol", "1e-3"], ["--no-such-flag"]):
    case("msamp-run " + " ".join(flags), run("--data", TEXT, *flags), 64, [flags[0].lstrip("-")])
case("--nproc beyond reason names the bound", run("--data", TEXT, "--nproc", "1000"), 64, [rf"1 to {min(64, 8 * len(os.sched_getaffinity(0)))}\b"])
case("--gpus without a GPU", run("--data", TEXT, "--nproc", "2", "--gpus", "0,0"), 64, ["--gpus", "--device cuda"])
case("--gpus before the plan", ["msamp-run", "--nproc", "2", "--gpus", "0,0", plan, "--data", TEXT], 64, ["--device cuda"])
for gpus in ("x", "-1", "0,"):
    case(f"--gpus {gpus}", run("--data", TEXT, "--gpus", gpus), 64, ["gpus"])
case("--check with ranks", run("--check", common.MODELS / "gpt_bytes.ref.safetensors", "--nproc", "2"), 64, ["nproc"])

# --- plans
case("no such plan", run("--data", TEXT, plan=inputs / "none"), 74, ["none"])
case("a model as a plan", run("--data", TEXT, plan=GPT_FILE), (65, 74), ["gpt_bytes"])
damaged = t.work / "damaged"


# --- targets and devices
case("a target that is none", msampc(GPT_FILE, *BOUND, "--target", "cpu,sm_75"), 64, ["sm_75", "sm_90a"])
case("a target twice", msampc(GPT_FILE, *BOUND, "--target", "sm_80,sm_80"), 64, ["sm_80 twice", "sm_90a"])
gpu_plan = t.work / "gpu_plan"
subprocess.run([t.bin / "msampc", GPT_FILE, "-o", gpu_plan, *BOUND, "--init", "normal:0.02", "--target", "sm_90a,sm_100a"], check=True,
               capture_output=True)
case("a GPU's plan on a CPU", run("--steps", 1, "--data", t.corpus(), plan=gpu_plan), 65,
     ["for sm_90a, sm_100a", "--target sm_90a,sm_100a,cpu", "--device cuda"])
case("msamp-inspect of a target that is not there", ["msamp-inspect", gpu_plan, "--target", "sm_80"], 64, ["sm_80", "sm_90a, sm_100a"])
module = t.bin.parent / "lib" / "msamp_device_cuda.so"
try:
    ctypes.CDLL("libcuda.so.1")
    driver = True
except OSError:
    driver = False
if not module.exists():
    case("no CUDA in this build", run("--steps", 1, "--data", t.corpus(), "--device", "cuda", plan=gpu_plan), 64, ["--device cuda"])
elif not driver:
    case("no driver", run("--steps", 1, "--data", t.corpus(), "--device", "cuda", plan=gpu_plan), 75, [r"libcuda\.so\.1", "--device cpu"])
else:
    case("a CPU's plan on a GPU", run("--steps", 1, "--data", t.corpus(), "--device", "cuda"), 65, ["--target cpu,sm_"])


def damage(file, content):
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(plan, damaged)
    (damaged / file).write_bytes(content)


def quiet(command):
    return subprocess.run([str(t.bin / command[0]), *map(str, command[1:])], capture_output=True, text=True, errors="replace", timeout=120)


pb = (plan / "plan.pb").read_bytes()
assert pb[-35:-32] == b"\xa2\x06\x20" and pb[:1] == b"\x08", "plan.pb starts with the major version and ends with its digest"
other = b"\x08\x63" + pb[2:-35]
damage("plan.pb", other + b"\xa2\x06\x20" + hashlib.sha256(other).digest())
case("a plan of another major version", run("--data", TEXT, plan=damaged), 65, ["99", "version"])
case("msamp-inspect of it", ["msamp-inspect", damaged], 65, ["99", "version"])
# Every kind of damage is refused with 65, by the tool that trains and by the one that shows.
generator = random.Random(7)
wrong = []
parts = sorted(p for p in plan.rglob("*") if p.is_file())
tries = 0
for part in parts:
    name, content = part.relative_to(plan), part.read_bytes()
    damages = [("cut", cut, content[:cut]) for cut in {0, 1, len(content) // 2, len(content) - 1} if cut < len(content)]
    for _ in range(40 if name.name == "plan.pb" else 8):
        position = generator.randrange(len(content) * 8)
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        damages.append(("bit", position, bytes(flipped)))
    for kind, position, data in damages:
        damage(name, data)
        done = quiet(["msamp-run", damaged, "--data", TEXT, "--steps", "1"])
        tries += 1
        if done.returncode != 65 or not done.stderr.strip():
            wrong.append(f"{name} {kind} {position}: exit {done.returncode}: {done.stderr.strip()[:200]}")
    if content:
        shutil.rmtree(damaged)
        shutil.copytree(plan, damaged)
        (damaged / name).unlink()
        done = quiet(["msamp-run", damaged, "--data", TEXT, "--steps", "1"])
        if done.returncode not in (65, 74):
            wrong.append(f"{name} missing: exit {done.returncode}: {done.stderr.strip()[:200]}")
t.expect(not wrong, f"{tries} damaged plans ({', '.join(str(p.relative_to(plan)) for p in parts)}) are refused: {wrong[:5]}")
if "--help" not in quiet(["msampc", "--help"]).stdout:
    t.expect(False, "msampc --help documents its flags")
t.finish()
