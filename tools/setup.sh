#!/usr/bin/env bash
# Installs what a build of msamp needs and does nothing when it is there already.
#
#   tools/setup.sh          what a build needs: Debian packages, ONNX in .deps/
#   tools/setup.sh test     that, and what only the tests need: GoogleTest, FileCheck, lit, numpy
#
# Root (or sudo) is needed only while a Debian package is missing. Logs are in .deps/*.log.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
mode=${1:-build}
case $mode in build | test) ;; *) echo "usage: tools/setup.sh [build|test]" >&2; exit 64 ;; esac

onnx_version=1.23.2
packages=(ca-certificates clang-22 g++ cmake ninja-build make pkg-config ccache mold python3 python3-venv
  libmlir-22-dev mlir-22-tools llvm-22-dev lld-22 zlib1g-dev libprotobuf-dev protobuf-compiler libcli11-dev
  nlohmann-json3-dev libfmt-dev libspdlog-dev libxxhash-dev libssl-dev libgloo-dev libdnnl-dev libre2-dev)
if [ "$mode" = test ]; then packages+=(llvm-22-tools libgtest-dev libgmock-dev); fi

mkdir -p .deps
say() { printf '\n== %s\n' "$*"; }

# logged NAME COMMAND...: output goes to .deps/NAME.log; its last lines are shown when the command fails.
logged() {
  local log=.deps/$1.log
  shift
  if ! "$@" >"$log" 2>&1; then
    echo "failed: $*" >&2
    tail -n 25 "$log" >&2
    echo "the whole log: $root/$log" >&2
    return 1
  fi
}

missing=()
for package in "${packages[@]}"; do
  # A package is there when its state is installed, whatever its architecture suffix says.
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "root is needed once: apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
      exit 1
    }
    as_root=(sudo)
  fi
  logged apt-update "${as_root[@]}" apt-get update
  logged apt-install "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${missing[@]}"
fi

# pip_has MODULE...: whether the environment's Python can import all of them.
pip_has() { [ -x .deps/venv/bin/python3 ] && .deps/venv/bin/python3 -c "import $(IFS=,; echo "$*")" 2>/dev/null; }
pip_install() {
  [ -x .deps/venv/bin/python3 ] || logged venv python3 -m venv .deps/venv
  logged pip-install .deps/venv/bin/python3 -m pip install --disable-pip-version-check -q "$@"
}

# ONNX's parser and checker come from the source distribution: Debian's is too old (opset 17, no inliner). It links
# Debian's protobuf, as msampc does. The stamp names version and recipe, so that a changed recipe builds it again.
stamp=.deps/onnx/.built-$onnx_version
if [ ! -f "$stamp" ]; then
  say "building ONNX $onnx_version into .deps/onnx (once, a few minutes)"
  rm -rf .deps/onnx .deps/src
  mkdir -p .deps/src
  pip_has cmake || pip_install 'cmake>=3.26,<4'
  logged onnx-download .deps/venv/bin/python3 -m pip download --disable-pip-version-check --no-deps --no-binary=onnx \
    -d .deps/src "onnx==$onnx_version"
  tar -C .deps/src -xzf .deps/src/onnx-$onnx_version.tar.gz
  launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  logged onnx-configure .deps/venv/bin/cmake -S .deps/src/onnx-$onnx_version -B .deps/src/onnx-build -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_STANDARD=20 -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
    -DONNX_BUILD_PYTHON=OFF -DONNX_BUILD_TESTS=OFF -DONNX_USE_PROTOBUF_SHARED_LIBS=ON \
    -DCMAKE_INSTALL_PREFIX="$root/.deps/onnx" "${launcher[@]}"
  logged onnx-build .deps/venv/bin/cmake --build .deps/src/onnx-build
  logged onnx-install .deps/venv/bin/cmake --install .deps/src/onnx-build
  rm -rf .deps/src
  touch "$stamp"
fi

# With a CUDA toolkit: the headers of cuDNN's graph interface.
frontend_version=1.32.0
stamp=.deps/cudnn-frontend/.version-$frontend_version
if { command -v nvcc >/dev/null || [ -e "${CUDA_HOME:-/usr/local/cuda}/include/cudnn.h" ]; } && [ ! -f "$stamp" ]; then
  say "fetching the headers of cuDNN's frontend $frontend_version into .deps/cudnn-frontend"
  rm -rf .deps/cudnn-frontend .deps/src
  mkdir -p .deps/src .deps/cudnn-frontend
  [ -x .deps/venv/bin/python3 ] || logged venv python3 -m venv .deps/venv
  logged frontend-download .deps/venv/bin/python3 -m pip download --disable-pip-version-check --no-deps \
    --only-binary=:all: -d .deps/src "nvidia-cudnn-frontend==$frontend_version"
  logged frontend-unpack .deps/venv/bin/python3 -m zipfile -e .deps/src/nvidia_cudnn_frontend-*.whl .deps/src/frontend
  mv .deps/src/frontend/include .deps/cudnn-frontend/
  rm -rf .deps/src
  touch "$stamp"
fi

if [ "$mode" = test ]; then
  pip_has lit numpy || { say "installing lit and numpy into .deps/venv"; pip_install lit numpy; }
fi
