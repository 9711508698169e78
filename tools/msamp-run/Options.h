// The command line of msamp-run.
#ifndef MSAMP_TOOLS_MSAMP_RUN_OPTIONS_H
#define MSAMP_TOOLS_MSAMP_RUN_OPTIONS_H

#include "runtime/data/Loader.h"
#include "runtime/train/Check.h"
#include "runtime/train/Trainer.h"

#include <optional>
#include <string>

namespace msamp::tools {

struct Options {
  std::string plan;
  data::LoaderOptions loader;
  train::TrainOptions train;
  std::optional<train::CheckOptions> check;
  unsigned ranks = 1;
  unsigned threads = 0; // of each rank; 0: the cores shared out among the ranks
  bool memory = false;  // print the memory table and go no further
};

// Cores that this process may run on.
unsigned availableCores();

// Nothing when the text asked for (--help, --version) has been printed. Throws Error (exit 64) naming the flag.
std::optional<Options> parseOptions(int argc, char **argv);

} // namespace msamp::tools

#endif
