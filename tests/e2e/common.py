"""What the end-to-end tests share: running the tools, reading metrics and safetensors, and a corpus."""
import argparse
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import time

import numpy as np

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
DTYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "U8": np.uint8}


def variant(text):
    """Flags of msampc for LEVEL[/RECIPE][/fp8-head]."""
    level, *rest = text.split("/")
    flags = ["--fp8-head"] if "fp8-head" in rest else []
    for recipe in rest:
        flags += ["--recipe", recipe] if recipe != "fp8-head" else []
    return ["--level", level, *flags]


class Context:
    """Where the tools and the scratch folder are, and what has failed so far."""

    def __init__(self, *extra):
        parser = argparse.ArgumentParser()
        parser.add_argument("--bin", required=True, type=pathlib.Path)
        parser.add_argument("--work", required=True, type=pathlib.Path)
        for name, default in extra:
            parser.add_argument(name, default=default)
        self.args = parser.parse_args()
        self.bin = self.args.bin.resolve()
        self.work = self.args.work.resolve()
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        self.failures = []

    def expect(self, condition, message):
        """Notes a failure and goes on, so that one run tells all of them."""
        print(("ok    " if condition else "FAIL  ") + message, flush=True)
        if not condition:
            self.failures.append(message)

    def finish(self):
        if self.failures:
            print(f"{len(self.failures)} failed:", *self.failures, sep="\n  ")
        sys.exit(1 if self.failures else 0)

    def run(self, tool, *arguments, expect=0, timeout=1200, cwd=None):
        """Runs a tool and returns its CompletedProcess; ends the test when the exit code is not the expected one."""
        command = [str(self.bin / tool), *map(str, arguments)]
        start = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=cwd, errors="replace")
        done.seconds = time.monotonic() - start
        if expect is not None and done.returncode != expect:
            print("$", *command)
            print(done.stdout[-6000:])
            print(done.stderr[-6000:])
            print(f"exit code {done.returncode}, expected {expect}")
            sys.exit(1)
        return done

    def compile(self, model, plan, *arguments, **keywords):
        plan = self.work / plan
        self.run("msampc", model, "-o", plan, "--target", "cpu", *arguments, **keywords)
        return plan

    def gpt_bytes(self, plan, *arguments):
        """The byte-level GPT at 16 x 128, with weights drawn from the seed."""
        return self.compile(MODELS / "gpt_bytes.onnx", plan, "--dim", "batch=16", "--dim", "seq=128", "--init",
                            "normal:0.02", *arguments)

    def corpus(self):
        """Text that every Debian has, in one file."""
        path = self.work / "corpus.txt"
        if not path.exists():
            licences = sorted(p for p in pathlib.Path("/usr/share/common-licenses").iterdir())
            path.write_bytes(b"".join(p.read_bytes() for p in licences))
        return path

    def train(self, plan, log, *arguments, data=None, **keywords):
        """Trains and returns the metrics of all steps."""
        log = self.work / log
        self.run("msamp-run", plan, "--data", data or self.corpus(), "--log-dir", log, *arguments, **keywords)
        return metrics(log)


def metrics(folder):
    with open(pathlib.Path(folder) / "metrics.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def losses(rows):
    return np.array([np.nan if row["loss"] is None else row["loss"] for row in rows])


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin:8 + length + end], DTYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    names = {np.dtype(v): k for k, v in DTYPES.items()}
    header, offset = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": names[values.dtype], "shape": list(values.shape),
                        "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(np.ascontiguousarray(values).tobytes())
