// The command line of msamp-run.
#ifndef MSAMP_TOOLS_MSAMP_RUN_OPTIONS_H
#define MSAMP_TOOLS_MSAMP_RUN_OPTIONS_H

#include "runtime/train/Check.h"
#include "runtime/train/Trainer.h"
#include "tools/common/RunFlags.h"

#include <optional>

namespace msamp::tools {

struct Options : RunOptions {
  train::TrainOptions train;
  std::optional<train::CheckOptions> check;
  bool memory = false;  // print the memory table and go no further
};

// Nothing when the text asked for (--help, --version) has been printed. Throws Error (exit 64) naming the flag.
std::optional<Options> parseOptions(int argc, char **argv);

} // namespace msamp::tools

#endif
