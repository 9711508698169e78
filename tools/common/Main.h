// The frame around a tool that runs plans: its streams, its failures, the rank that it is.
#ifndef MSAMP_TOOLS_COMMON_MAIN_H
#define MSAMP_TOOLS_COMMON_MAIN_H

#include "runtime/cluster/Launcher.h"
#include "runtime/exec/Executor.h"
#include "tools/common/RunFlags.h"

#include <functional>
#include <memory>

namespace msamp::tools {

// Runs the body; what it throws becomes a message on standard error and an exit code.
int runTool(const char *name, const std::function<int()> &body);

// One rank's device, its connection to the others, and the plan on it.
struct Rank {
  std::unique_ptr<runtime::Device> device;
  std::unique_ptr<runtime::Communicator> communicator;
  std::unique_ptr<runtime::Executor> executor;

  Rank(const RunOptions &options, runtime::LoadedPlan plan, const runtime::RankEnvironment &where);
};

} // namespace msamp::tools

#endif
