#!/usr/bin/env bash
# Installs what only the tests need, builds everything and runs all tests. Ends with ctest's summary.
#
#   tools/test.sh [CTEST ARGUMENTS]    for example: tools/test.sh -R lit, or -LE slow
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh test
source tools/build.sh
# The tests are part of the build once GoogleTest and the Python environment are there.
cmake --preset release >.deps/configure.log 2>&1 || { tail -n 30 .deps/configure.log >&2; exit 1; }
build all

exec ctest --test-dir build --output-on-failure --no-tests=error -j "$(nproc)" "$@"
