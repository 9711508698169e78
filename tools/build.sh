# Sourced by quickstart.sh and test.sh: configures and builds into build/ what is not up to date.
# Objects are found again in ccache from another clone: paths below this folder are hashed relative to it.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# What ccache wants to be told where headers are precompiled.
export CCACHE_SLOPPINESS=pch_defines,time_macros
# Clang compiles this in about half of g++'s time; CC and CXX choose another compiler for a fresh build folder.
export CC=${CC:-clang-22} CXX=${CXX:-clang++-22}

build() {
  local preset=release log=.deps/build.log
  if [ ! -f build/build.ninja ]; then
    echo "== configuring"
    cmake --preset $preset >.deps/configure.log 2>&1 || { tail -n 30 .deps/configure.log >&2; return 1; }
    grep -E '^-- msamp: ' .deps/configure.log || true
  fi
  echo "== building; the log is $log"
  if ! ninja -C build "$@" >$log 2>&1; then
    grep -E -A 12 'FAILED|error' $log | tail -n 60 >&2
    return 1
  fi
  if grep -q 'no work to do' $log; then echo "   nothing to do"; fi
}
