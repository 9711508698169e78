// What the tools that run plans have in common on their command lines: plan, data, optimizer, device, ranks.
#ifndef MSAMP_TOOLS_COMMON_RUNFLAGS_H
#define MSAMP_TOOLS_COMMON_RUNFLAGS_H

#include "runtime/data/Loader.h"
#include "runtime/exec/Executor.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace msamp::tools {

struct RunOptions {
  std::string plan;
  data::LoaderOptions loader;
  runtime::Hyper hyper;
  std::string device = "cpu";
  bool deterministic = true;
  unsigned ranks = 1;
  std::vector<unsigned> gpus; // of each rank; empty: rank r has GPU r
  unsigned threads = 0; // of each rank; 0: the cores shared out among the ranks
};

// Cores that this process may run on.
unsigned availableCores();

// Adds the flags to a command line and brings what they said into the options after parsing.
class RunFlags {
public:
  explicit RunFlags(RunOptions &options) : options(options) {}

  void addPlanAndData(CLI::App &app);
  void addOptimizer(CLI::App &app);
  void addDevice(CLI::App &app);
  void finish();

  bool hasData() const { return !sources.empty(); }

private:
  RunOptions &options;
  std::vector<std::string> sources;
  std::string dataType = "u16";
  uint64_t ranks = 1, threads = 0;
  std::vector<uint64_t> gpus;
};

} // namespace msamp::tools

#endif
