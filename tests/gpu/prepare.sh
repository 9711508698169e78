#!/bin/bash
# usage: prepare.sh [--bin BUILD/bin] [--target sm_90a] [--graphs FOLDER] [--models FOLDER] [--only REGEX] DIR
# Compiles the plans of run.sh and packs them with the programs and libraries that they need, for a machine that has a GPU but
# no compiler: DIR holds bin/, lib/, plans/, refs/, run.sh, text.txt and the lists checks.txt, benches.txt, repeats.txt and ranks.txt. --graphs names a folder
# with NAME.opset18.onnx of the full-size graphs (none: a small model is measured instead), --models one with
# MODEL/model.onnx and MODEL/ref.safetensors (default: tests/models).
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
bin=$source_dir/build/bin target=sm_90a graphs= models=$source_dir/tests/models only=. dir=
while [ $# -gt 0 ]; do
  case $1 in
    --bin) bin=$2; shift ;;
    --target) target=$2; shift ;;
    --graphs) graphs=$2; shift ;;
    --models) models=$2; shift ;;
    --only) only=$2; shift ;;
    -h|--help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    -*) echo "prepare.sh: no such flag: $1" >&2; exit 64 ;;
    *) dir=$1 ;;
  esac
  shift
done
[ -n "$dir" ] || { echo "prepare.sh: where to? prepare.sh DIR" >&2; exit 64; }
[ -x "$bin/msampc" ] || { echo "prepare.sh: no msampc in $bin; give --bin" >&2; exit 64; }
rm -rf "$dir/plans" # of another compiler, perhaps
mkdir -p "$dir"/{bin,lib,plans,refs}
: > "$dir/checks.txt"; : > "$dir/benches.txt"; : > "$dir/repeats.txt"; : > "$dir/ranks.txt"

# --- programs, modules, and what they link that a bare machine lacks (not the C and C++ libraries)
for tool in msamp-run msamp-bench msamp-kernel-check msamp-function-check msamp-ops-check; do
  if [ -x "$bin/$tool" ]; then strip -o "$dir/bin/$tool" "$bin/$tool"; fi
done
for module in "$bin"/../lib/msamp_device_*.so "$bin"/../lib/msamp_comm_*.so; do
  [ -e "$module" ] && strip -o "$dir/lib/$(basename "$module")" "$module"
done
for file in "$dir"/bin/* "$dir"/lib/*; do
  ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// {print $3}'
done | sort -u | grep -vE '/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
  while read -r library; do cp -Ln "$library" "$dir/lib/" || true; done

# --- plans
compile() { # plan-name model flags..
  local name=$1 model=$2; shift 2
  echo "  $name"
  "$bin/msampc" "$model" -o "$dir/plans/$name" "$@" 2> "$dir/plans/$name.log" || { cat "$dir/plans/$name.log" >&2; return 1; }
  rm "$dir/plans/$name.log"
}
# msampc's flags for LEVEL[-RECIPE][-head].
flags_of() {
  local part
  flags=(--level ${1%%-*})
  for part in ${1//-/ }; do
    case $part in
      current|rowwise|block) flags+=(--recipe "$part") ;;
      head) flags+=(--fp8-head) ;;
    esac
  done
}
# Error of all gradients as one norm, of a check's table.
norm_of_gradients() { awk '$1 ~ /^grad\./ {e += ($2 * $4) ^ 2; n += $4 ^ 2} END {printf "%.4e\n", (n > 0 ? sqrt(e / n) : 0)}'; }

echo "plans of gradients, compared with PyTorch's and with the CPU's"
for folder in "$models"/*/ "$source_dir/tests/models/gpt_bytes"; do
  model=$(basename "$folder")
  onnx=$folder/model.onnx reference=$folder/ref.safetensors dims=()
  if [ "$model" = gpt_bytes ]; then
    onnx=$folder.onnx reference=$folder.ref.safetensors dims=(--dim batch=4 --dim seq=64)
  else
    # The references are of batches of 2 and, of text, 32 tokens; msampc says which of the two a file leaves open.
    for dim in batch=2 seq=32; do
      if { "$bin/msampc" "$onnx" --compile-to import -o /dev/null 2>&1 || true; } | grep -q -- "--dim ${dim%=*}=SIZE"; then dims+=(--dim $dim); fi
    done
  fi
  [ -f "$onnx" ] && [ -f "$reference" ] || continue
  for level in fp32 bf16 O2 O3 O2-current O2-block O3-head; do
    [[ check/$model.$level =~ $only ]] || continue
    flags_of $level
    # What the CPU cannot take is not asked of the GPU.
    "$bin/msampc" "$onnx" -o "$dir/plans/cpu" "${dims[@]}" "${flags[@]}" 2> /dev/null || { echo "  $model.$level: not taken"; continue; }
    expected=$("$bin/msamp-run" "$dir/plans/cpu" --check "$reference" | norm_of_gradients) || true
    rm -r "$dir/plans/cpu"
    compile "$model.$level" "$onnx" "${dims[@]}" "${flags[@]}" --target "$target" || continue
    cp -f "$reference" "$dir/refs/$model.safetensors"
    judged=$level # a plan in which no product could be FP8 is judged as what it is
    if [[ $level == O* ]] && ! grep -q '"fp8_values": true' <("$bin/msamp-inspect" "$dir/plans/$model.$level" --format json); then judged=bf16; fi
    echo "$model.$level $model $judged $expected" >> "$dir/checks.txt"
  done
done

echo "plans that train: for their speed, and for the same bits twice"
train() { # list variant name batch model flags..
  local list=$1 variant=$2 name=$3 batch=$4 model=$5; shift 5
  [[ $list/$name.$variant =~ $only ]] || return 0
  local plan=$name.$variant
  flags_of $variant
  [ -d "$dir/plans/$plan" ] ||
    compile "$plan" "$model" --dim batch=$batch --init normal:0.02 --target "$target" "${flags[@]}" "$@" || return 0
  case $list in
    bench) echo "$plan $name $variant $batch" >> "$dir/benches.txt" ;;
    repeat) echo "$plan" >> "$dir/repeats.txt" ;;
  esac
}
bench() { local variant; for variant in bf16 O3 O3-current O3-rowwise O3-block O3-head; do train bench $variant "$@"; done; }
repeat() { local variant; for variant in bf16 O1 O2 O3 O3-current O3-rowwise O3-block; do train repeat $variant "$@"; done; }
if [ -n "$graphs" ]; then
  bench gpt2-124m 32 "$graphs/gpt2-124m.opset18.onnx"
  repeat gpt2-124m 32 "$graphs/gpt2-124m.opset18.onnx"
  bench gpt-1.3b 16 "$graphs/gpt-1.3b.opset18.onnx"
  bench gpt-7b 2 "$graphs/gpt-7b.opset18.onnx"
  bench gpt-175b-slice2 8 "$graphs/gpt-175b-slice2.opset18.onnx"
else
  bench gpt_bytes 64 "$source_dir/tests/models/gpt_bytes.onnx" --dim seq=128
  repeat gpt_bytes 64 "$source_dir/tests/models/gpt_bytes.onnx" --dim seq=128
fi

echo "plans of two ranks, and of one that does the work of both"
cp "$source_dir/README.md" "$dir/text.txt"
# Gradients are rounded before they are added between ranks, after it within one; fp32 has no such rounding.
for ranks in fp32:0:1e-5 bf16:1:1e-3 O1:0:1e-2 O2:1:1e-2 O3:1:1e-2; do
  IFS=: read -r level zero bound <<< "$ranks"
  [[ ranks/ranks.$level.zero$zero =~ $only || ($level = fp32 && ranks/lost =~ $only) ]] || continue
  flags=("$source_dir/tests/models/gpt_bytes.onnx" --dim batch=16 --dim seq=128 --init normal:0.02 --level $level --target "$target")
  compile ranks.$level.zero$zero "${flags[@]}" --zero $zero
  compile ranks.$level.twice "${flags[@]}" --accumulate 2
  echo "ranks.$level.zero$zero ranks.$level.twice $bound" >> "$dir/ranks.txt"
done

echo "plans whose kernels are compared with the CPU's"
kernels() { # level suffix model flags..
  local level=$1 name=kernels.$1$2 model=$source_dir/tests/models/$3; shift 3
  [[ kernels/${name#kernels.} =~ $only && $target != cpu ]] || return 0
  flags_of $level
  compile "$name" "$model" "$@" --init normal:0.02 "${flags[@]}" --target "$target" --reference-kernels
}
for level in bf16 O2 O3 O2-block O3-rowwise-head; do
  kernels $level "" gpt_bytes.onnx --dim batch=4 --dim seq=64
done
# Widths that fill no block of 128, and weights small enough to be quantised in one go.
for level in O2-current O2-block; do
  kernels $level .llama llama.dynamo/model.onnx
done
if [[ functions =~ $only && $target != cpu && -x $bin/msamp-gpu-functions ]]; then
  "$bin/msamp-gpu-functions" "$target" "$dir/functions.ptx"
fi
cp "$(dirname "$0")/run.sh" "$dir/run.sh"
du -sh "$dir" | awk '{print $1 " in " $2}'
