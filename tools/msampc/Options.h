// The command line of msampc.
#ifndef MSAMP_TOOLS_MSAMPC_OPTIONS_H
#define MSAMP_TOOLS_MSAMPC_OPTIONS_H

#include "frontend/Import.h"
#include "passes/Pipeline.h"

#include <string>
#include <variant>
#include <vector>

namespace msamp::msampc {

struct Options {
  std::string input, output;
  frontend::ImportOptions import;
  PipelineOptions pipeline; // of no target yet
  std::vector<std::string> targets;
  std::string compileFrom, compileTo; // phases; empty: from the model, to the plan
  std::string dumpPhases, remarks;
  unsigned memoryRanks = 0; // 0: no table
  bool referenceKernels = false;
};

// The options, or the exit code after help, version or an error in the command line has been printed.
std::variant<Options, int> parseOptions(int argc, char **argv);

inline constexpr const char *version = "msampc 0.1.0";

} // namespace msamp::msampc

#endif
