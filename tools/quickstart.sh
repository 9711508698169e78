#!/usr/bin/env bash
# From nothing to a training run: installs what is missing, builds, compiles a small GPT at O2 and trains it with two
# ranks on the licence texts that every Debian has. A second call installs and builds nothing again.
#
#   tools/quickstart.sh [STEPS]        200 steps unless said otherwise
set -euo pipefail
cd "$(dirname "$0")/.."
steps=${1:-200}

tools/setup.sh build
source tools/build.sh
build msampc msamp-run msamp-bench msamp-inspect msamp-opt

out=build/quickstart
mkdir -p $out
cat /usr/share/common-licenses/[A-Z]* >$out/text.txt

show() { printf '\n$ %s\n' "$*"; "$@"; }
show build/bin/msampc tests/models/gpt_bytes.onnx --dim batch=16 --dim seq=128 --level O2 --init normal:0.02 \
  --target cpu -o $out/plan
show build/bin/msamp-run $out/plan --data $out/text.txt --steps "$steps" --lr 1e-3 --warmup 20 --schedule cosine \
  --nproc 2 --log-dir $out/log --save $out/trained.safetensors

printf '\nThe loss of every step is in %s, the weights in %s.\n' $out/log/metrics.jsonl $out/trained.safetensors
