"""What happens when a rank is killed, when the run is asked to stop, and when there is no room."""
import fcntl
import os
import pathlib
import re
import signal
import subprocess
import time

import common

t = common.Context()
plan = t.gpt_bytes("plan", "--level", "O2")


def start(name, ranks, plan=plan, data=None):
    """Starts a long run and waits until it makes steps."""
    log, save = t.work / name, t.work / f"{name}.safetensors"
    process = subprocess.Popen([t.bin / "msamp-run", plan, "--data", data or t.corpus(), "--steps", "100000", "--nproc", str(ranks),
                                "--log-dir", log, "--save", save], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    file = log / "metrics.jsonl"
    while time.monotonic() < deadline and process.poll() is None and not (file.exists() and file.stat().st_size > 200):
        time.sleep(0.05)
    assert process.poll() is None, process.communicate()
    return process, save, log


def children(pid):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.parent.name))
    return sorted(found)


def wait(process, seconds):
    begin = time.monotonic()
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        for pid in children(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        out, err = process.communicate()
    return time.monotonic() - begin, out, err


process, save, log = start("killed", 2)
ranks = children(process.pid)
t.expect(len(ranks) == 2, f"two ranks run: {ranks}")
os.kill(ranks[1], signal.SIGKILL)
seconds, out, err = wait(process, 30)
alive = [pid for pid in ranks if pathlib.Path(f"/proc/{pid}").exists()]
t.expect(process.returncode == 75, f"a rank killed with -9: exit {process.returncode}, expected 75")
t.expect(seconds < 2 and not alive, f"the others left after {seconds:.1f} s")
causes = [line for line in err.splitlines() if line.strip()]
t.expect(len(causes) == 1 and re.search(r"rank 1", err) is not None, f"the first cause is shown once: {err.strip()!r}")
t.expect(not save.exists() and not list(t.work.glob("*.tmp*")), "no weights are left of a run that failed")
t.expect(len(common.metrics(log)) > 0, "metrics are whole lines")

for name, ranks, number, code in [("interrupted", 1, signal.SIGINT, 130), ("terminated", 2, signal.SIGTERM, 143),
                                  ("hung up", 1, signal.SIGHUP, 129), ("hung up 2", 2, signal.SIGHUP, 129)]:
    process, save, log = start(name, ranks)
    process.send_signal(number)
    seconds, out, err = wait(process, 30)
    t.expect(process.returncode == code, f"{name}: exit {process.returncode}, expected {code}: {err.strip()}")
    t.expect(save.exists() and "stopped by" in out, f"{name}: weights were saved after {seconds:.1f} s")
    weights = common.read_safetensors(save)
    t.expect(len(weights) > 40, f"{name}: {len(weights)} tensors")

# A data file that is cut short while it is in use, and output that nobody takes.
def cut(name, ranks):
    text = t.work / f"{name}.txt"
    text.write_bytes(t.corpus().read_bytes())
    process, save, log = start(name, ranks, data=text)
    os.truncate(text, 0)
    seconds, out, err = wait(process, 30)
    t.expect(process.returncode == 74 and f"{name}.txt" in err, f"{name}: exit {process.returncode}: {err.strip()!r}")


cut("shortened", 1)
cut("shortened2", 2)
process, save, log = start("unread", 2)
process.stdout.close()
process.wait(120)
err = process.stderr.read()
t.expect(process.returncode == 74 and "standard output" in err and save.exists(), f"nobody reads: exit {process.returncode}: {err.strip()!r}")
with open("/dev/full", "w") as full:
    done = subprocess.run([t.bin / "msamp-run", plan, "--data", t.corpus(), "--steps", "2"], stdout=full, stderr=subprocess.PIPE, text=True)
t.expect(done.returncode == 74 and "standard output" in done.stderr, f"no room for output: exit {done.returncode}: {done.stderr.strip()!r}")

# Compilers that were killed leave a folder beside their target, which the next one removes unless another is at work in it.
leftovers = {name: t.work / f".other.{name}" for name in ("msampc-killed", "msampc-locked", "msampc-recent", "backup")}
for name, folder in leftovers.items():
    folder.mkdir()
    (folder / "plan.pb").write_bytes(b"half")
    if name != "msampc-recent":
        os.utime(folder, (0, 0))
lock = os.open(leftovers["msampc-locked"], os.O_RDONLY)
fcntl.flock(lock, fcntl.LOCK_EX)
for _ in range(2):  # the second takes the first one's place
    t.gpt_bytes("other", "--level", "fp32")
os.close(lock)
left = sorted(path.name for path in t.work.glob(".other.*"))
t.expect(left == [".other.backup", ".other.msampc-locked", ".other.msampc-recent"], f"of what others left, what is in use or not the compiler's stays: {left}")

# A device without room, where one can be made.
small = t.work / "small"
small.mkdir()
full = subprocess.run(["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=200k none "$1" && shift && exec "$@"', "sh", small,
                       t.bin / "msampc", common.MODELS / "gpt_bytes.onnx", "--dim", "batch=2", "--dim", "seq=16", "--init", "normal:0.02",
                       "-o", small / "plan"], capture_output=True, text=True)
if "mount:" in full.stderr or "unshare:" in full.stderr:
    print(f"skipped: a full device: {full.stderr.strip()}")
else:
    t.expect(full.returncode == 74 and str(small) in full.stderr, f"a full device: exit {full.returncode}: {full.stderr.strip().splitlines()[-1]!r}")

# A step of sixteen micro-batches takes seconds: the second signal comes before the first one's step has ended.
process, save, log = start("twice", 2, t.gpt_bytes("slow", "--level", "O2", "--accumulate", 16))
process.send_signal(signal.SIGTERM)
time.sleep(0.3)
process.send_signal(signal.SIGTERM)
seconds, out, err = wait(process, 30)
t.expect(process.returncode in (137, 143) and seconds < 1.5, f"a second signal quits at once: exit {process.returncode} after {seconds:.1f} s")
t.expect(not save.exists(), "and saves nothing")
t.finish()
