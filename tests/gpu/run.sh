#!/bin/bash
# usage: run.sh [--dir DIR] [--bin BUILD/bin] [--peer peer_torch.py [--peer-modes MODE,..]] [--only REGEX] [--keep FOLDER]
#               [--device cuda]
# Checks an NVIDIA GPU's work and prints what it measured: kernels and library calls against the CPU's, gradients against
# PyTorch's, bits against themselves, and speed and memory, beside PyTorch with --peer. DIR is what prepare.sh packed; without
# one it is made here with the tools of --bin. --peer-modes: bf16-compile, which ratios are to, and others that the peer knows. --only picks by section/name (kernels/, functions, ops, check/, ranks/, repeat/, bench/, peer/).
# --keep takes the JSON of each measurement; --device cpu tries this script out where there is no GPU. Exit code 77: no GPU, skipped; 1: something is wrong.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$here bin= peer= modes=bf16-compile only=. keep= device=cuda
while [ $# -gt 0 ]; do
  case $1 in
    --dir) dir=$2; shift ;;
    --bin) bin=$2; shift ;;
    --peer) peer=$2; shift ;;
    --peer-modes) modes=$2; shift ;;
    --only) only=$2; shift ;;
    --keep) keep=$2; shift ;;
    --device) device=$2; shift ;;
    -h|--help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) echo "run.sh: no such flag: $1" >&2; exit 64 ;;
  esac
  shift
done
has_gpu() { nvidia-smi -L > /dev/null 2>&1 || { [ -e /dev/nvidiactl ] && ldconfig -p 2> /dev/null | grep -q 'libcuda\.so\.1'; }; }
if [ "$device" = cuda ] && ! has_gpu; then
  echo "skipped: no NVIDIA GPU (or no driver) on this machine"
  exit 77
fi
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
if [ ! -f "$dir/checks.txt" ]; then
  dir=$work/packed
  [ $device = cpu ] && target=cpu || target=sm_90a
  "$here/prepare.sh" ${bin:+--bin "$bin"} --target $target --only "$only" "$dir" || exit
fi
peer_libraries=${LD_LIBRARY_PATH:-} # not those that were packed for us
export LD_LIBRARY_PATH=$dir/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
keep=${keep:-$work/json}; mkdir -p "$keep"
wrong=0
fail() { echo "WRONG $*"; wrong=$((wrong + 1)); }
wanted() { [[ $1 =~ $only ]]; }
field() { sed -n 's/^  "'"$2"'": \([^,]*\),\{0,1\}$/\1/p' "$1" | head -1; }
norm_of_gradients() { awk '$1 ~ /^grad\./ {e += ($2 * $4) ^ 2; n += $4 ^ 2} END {printf "%.4e\n", (n > 0 ? sqrt(e / n) : 0)}'; }
worst_gradient() { awk '$1 ~ /^grad\./ && $2 > w {w = $2} END {printf "%.3e\n", w}'; }

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null

# --- kernels and library calls against the CPU's
for plan in "$dir"/plans/kernels.*; do
  name=$(basename "$plan")
  [ -d "$plan" ] && wanted "kernels/${name#kernels.}" || continue
  echo; echo "== kernels of $name"
  "$dir/bin/msamp-kernel-check" "$plan" || fail "kernels of $name (exit $?)"
done
if wanted functions && [ -f "$dir/functions.ptx" ]; then
  echo; echo "== conversions and functions"
  "$dir/bin/msamp-function-check" "$dir/functions.ptx" || fail "conversions and functions (exit $?)"
fi
if wanted ops && [ $device = cuda ] && [ -x "$dir/bin/msamp-ops-check" ]; then
  echo; echo "== library calls"
  "$dir/bin/msamp-ops-check" || fail "library calls (exit $?)"
fi

# --- gradients against PyTorch's references, and FP8's against the CPU's
first=1
while read -r plan model level expected; do
  wanted "check/$plan" || continue
  if [ $first = 1 ]; then
    first=0; echo; echo "== gradients"
    printf '%-26s%12s%14s%14s%10s  %s\n' plan worst "one norm" "the CPU's" ratio result
  fi
  "$dir/bin/msamp-run" "$dir/plans/$plan" --check "$dir/refs/$model.safetensors" --device $device > "$work/check" 2> "$work/error"
  code=$?
  worst=$(worst_gradient < "$work/check"); norm=$(norm_of_gradients < "$work/check")
  result=ok
  if [ $code != 0 ]; then
    result="WRONG (exit $code) $(tail -1 "$work/error")"
  elif [ "$level" = bf16 ] && [[ $model =~ ^(gpt2|llama) ]] && awk "BEGIN {exit !($worst > 3e-2)}"; then
    result="WRONG: a gradient is beyond 3e-2"
  elif [[ $level == O* && $expected != - ]] && awk "BEGIN {exit !($norm > 1.1 * $expected)}"; then
    result="WRONG: further from the references than the CPU by more than 10 %"
  fi
  ratio=-; [ "$expected" != - ] && ratio=$(awk "BEGIN {printf \"%.3f\", $norm / $expected}")
  printf '%-26s%12s%14s%14s%10s  %s\n' "$plan" "$worst" "$norm" "$expected" "$ratio" "$result"
  [ "$result" = ok ] || wrong=$((wrong + 1))
done < "$dir/checks.txt"

# --- speed and memory
measure() { # plan steps warmup -> $keep/plan.json
  "$dir/bin/msamp-bench" "$dir/plans/$1" --device $device --json --steps "$2" --warmup "$3" --lr 1e-4 > "$keep/$1.json" 2> "$keep/$1.txt"
}
rows=()
while read -r plan graph variant batch; do
  wanted "bench/$plan" || continue
  echo; echo "== $plan, batch $batch"
  if ! measure "$plan" 20 8; then fail "$plan: $(tail -3 "$keep/$plan.txt")"; continue; fi
  cat "$keep/$plan.txt"
  j=$keep/$plan.json
  [ $device = cuda ] && awk "BEGIN {p = $(field "$j" predicted_peak_bytes); exit !(($(field "$j" peak_bytes) - p) ^ 2 > (0.05 * p) ^ 2)}" &&
    fail "$plan: the peak of $(field "$j" peak_bytes) bytes is not within 5 % of the predicted $(field "$j" predicted_peak_bytes)"
  rows+=("$graph $variant $(field "$j" tokens_per_second) $(field "$j" model_tflops) $(field "$j" peak_bytes) $(field "$j" loss_first) $(field "$j" loss_last)")
done < "$dir/benches.txt"

# --- the same seed, the same bits: losses of two runs, of a plan a level and recipe
while read -r plan; do
  wanted "repeat/$plan" || continue
  for run in a b; do
    measure "$plan" 3 3 && sed -n '/"losses"/,/\]/p' "$keep/$plan.json" > "$work/losses.$run"
  done
  if [ -s "$work/losses.a" ] && cmp -s "$work/losses.a" "$work/losses.b"; then
    echo "repeat $plan: the same losses twice"
  else
    fail "repeat $plan: two runs of one seed differ"
  fi
done < "$dir/repeats.txt"

# --- ranks: two do what one does with twice the micro-batches, and twice the same. Where there is one GPU they share it.
gpus=$([ $device = cuda ] && nvidia-smi -L 2> /dev/null | wc -l)
[ -n "${CUDA_VISIBLE_DEVICES:-}" ] && gpus=$(awk -F, '{print NF}' <<< "$CUDA_VISIBLE_DEVICES")
[ "${gpus:-0}" -ge 2 ] && gpus=0,1 || gpus=0,0
two=(--nproc 2); [ $device = cuda ] && two+=(--gpus $gpus)
losses_of() { # plan log flags..: a loss a line, 10 of them
  local plan=$1 log=$work/log.$2; shift 2
  rm -rf "$log"
  timeout -k 2 60 "$dir/bin/msamp-run" "$dir/plans/$plan" --device $device --data "$dir/text.txt" --steps 10 --lr 1e-3 --log-dir "$log" "$@" \
    > /dev/null 2> "$work/error" && sed -n 's/.*"loss": *\([0-9.e+-]*\)[,}].*/\1/p' "$log/metrics.jsonl" > "$log/losses" &&
    [ "$(grep -c . "$log/losses")" = 10 ]
}
while read -r plan twice bound; do
  wanted "ranks/$plan" || continue
  if ! { losses_of "$twice" one && losses_of "$plan" two "${two[@]}" && losses_of "$plan" again "${two[@]}"; }; then
    fail "ranks $plan: no 10 losses: $(tail -2 "$work/error")"
    continue
  fi
  apart=$(paste "$work/log.one/losses" "$work/log.two/losses" | awk '{d = $2 / $1 - 1; d = d < 0 ? -d : d; if (d > most) most = d} END {printf "%.1e", most}')
  if ! cmp -s "$work/log.two/losses" "$work/log.again/losses"; then
    fail "ranks $plan: two runs of two ranks differ"
  elif awk "BEGIN {exit !($apart > $bound)}"; then
    fail "ranks $plan: losses of two ranks are up to $apart from one rank's, beyond $bound"
  else
    echo "ranks $plan: two on $device ($gpus), at most $apart from one rank's losses, the same bits twice"
  fi
done < "$dir/ranks.txt"
if wanted ranks/lost && [ -d "$dir/plans/ranks.fp32.zero0" ] && [ $device = cuda ]; then
  timeout -k 2 120 "$dir/bin/msamp-run" "$dir/plans/ranks.fp32.zero0" --device cuda --data "$dir/text.txt" --steps 1000000 "${two[@]}" \
    --log-dir "$work/lost" > /dev/null 2> "$work/error" &
  watched=$! killed=0
  for _ in {1..300}; do # until steps are recorded graphs
    [ "$(wc -l < "$work/lost/metrics.jsonl" 2> /dev/null || echo 0)" -ge 5 ] && break
    sleep 0.1
  done
  for environment in /proc/[0-9]*/environ; do
    if tr '\0' '\n' < $environment 2> /dev/null | grep -qx MSAMP_RANK=1; then kill -KILL "$(cut -d/ -f3 <<< $environment)" && killed=1; fi
  done
  since=$(date +%s%N)
  [ $killed = 1 ] || kill -KILL $watched
  wait $watched; code=$?
  took=$((($(date +%s%N) - since) / 1000000))
  said=$(grep '^msamp-run: ' "$work/error")
  if [ $code = 75 ] && [ $took -lt 5000 ] && [[ $said == *"rank 1 was killed by signal 9"* ]] && [ "$(wc -l <<< "$said")" = 1 ]; then
    echo "ranks lost: the other left after $took ms: $said"
  else
    fail "ranks lost: exit $code after $took ms: $said"
  fi
fi

# --- the peer on the same work
if [ -n "$peer" ]; then
  for graph in $(cut -d' ' -f2 "$dir/benches.txt" | uniq); do
    wanted "peer/$graph" || continue
    batch=$(awk -v g="$graph" '$2 == g {print $4; exit}' "$dir/benches.txt")
    for mode in ${modes//,/ }; do
      json=$keep/$graph.$mode.json
      if LD_LIBRARY_PATH=$peer_libraries python3 "$peer" --size "$graph" --batch "$batch" --mode "$mode" > "$json" 2> "$work/error"; then
        value() { sed -n 's/.*"'"$1"'": \([^,}]*\).*/\1/p' "$json"; }
        rows+=("$graph peer:$mode $(value tok_s) $(value model_tflops) $(awk "BEGIN {print $(value peak_gib) * 2^30}") $(value loss0) $(value loss_last)")
      else
        fail "peer $mode on $graph: $(tail -1 "$work/error")"
      fi
    done
  done
fi
if [ ${#rows[@]} -gt 0 ]; then
  echo; echo "== speed and peak memory (ratios: to torch.compile in the same run)"
  printf '%s\n' "${rows[@]}" | awk '
    {graph[NR] = $1; variant[NR] = $2; speed[NR] = $3; flops[NR] = $4; peak[NR] = $5; first[NR] = $6; last[NR] = $7
     if ($2 == "peer:bf16-compile") {s[$1] = $3; m[$1] = $5}}
    END {printf "%-18s%-19s%12s%10s%9s%9s%8s%9s%9s\n", "graph", "", "tokens/s", "TFLOP/s", "GiB", "speed", "peak", "loss", "at end"
      for (i = 1; i <= NR; ++i)
        printf "%-18s%-19s%12.0f%10.1f%9.2f%9s%8s%9.4f%9.4f\n", graph[i], variant[i], speed[i], flops[i], peak[i] / 2^30,
          graph[i] in s ? sprintf("%.2fx", speed[i] / s[graph[i]]) : "-", graph[i] in m ? sprintf("%.2fx", peak[i] / m[graph[i]]) : "-", first[i], last[i]}'
fi
echo
[ $wrong = 0 ] && echo "gpu: all is well" || echo "gpu: $wrong wrong"
[ $wrong = 0 ]
