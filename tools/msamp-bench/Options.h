// The command line of msamp-bench.
#ifndef MSAMP_TOOLS_MSAMP_BENCH_OPTIONS_H
#define MSAMP_TOOLS_MSAMP_BENCH_OPTIONS_H

#include "tools/common/RunFlags.h"

#include <optional>

namespace msamp::bench {

struct Options : tools::RunOptions {
  uint64_t steps = 20, warmup = 8;
  std::optional<double> peak; // TFLOP/s
  bool table = true;          // of kernels
  bool json = false;
};

// Nothing when the text asked for (--help, --version) has been printed. Throws Error (exit 64) naming the flag.
std::optional<Options> parseOptions(int argc, char **argv);

} // namespace msamp::bench

#endif
