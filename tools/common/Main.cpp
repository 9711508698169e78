#include "tools/common/Main.h"

#include "runtime/core/Error.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <new>
#include <set>
#include <unistd.h>

namespace msamp::tools {
using namespace runtime;

int runTool(const char *name, const std::function<int()> &body) {
  // Files must not be opened as standard streams that the caller has closed.
  int stream;
  do
    stream = open("/dev/null", O_RDWR);
  while (stream >= 0 && stream <= STDERR_FILENO);
  if (stream >= 0)
    close(stream);
  std::signal(SIGPIPE, SIG_IGN); // writing to a pipe that nobody reads is an error like others
  auto told = [&](int code, const std::string &message) {
    std::fflush(stdout);
    fmt::print(stderr, "{}: {}\n", name, message);
    return code;
  };
  try {
    return body();
  } catch (const Error &error) {
    return told(error.exitCode(), error.what());
  } catch (const std::bad_alloc &) {
    return told(static_cast<int>(Exit::TryAgain),
                "out of memory; a plan with --recompute full or --zero 1 and more ranks needs less");
  } catch (const std::exception &error) {
    return told(static_cast<int>(Exit::Internal), fmt::format("internal error: {}", error.what()));
  }
}

Rank::Rank(const RunOptions &options, LoadedPlan plan, const RankEnvironment &where) {
  DeviceOptions deviceOptions;
  deviceOptions.kind = options.device;
  deviceOptions.threads = options.threads;
  deviceOptions.deterministic = options.deterministic;
  deviceOptions.cacheFolder = plan.directory.string();
  deviceOptions.ranksOnMachine = where.size;
  deviceOptions.index = options.gpus.empty() ? where.rank : options.gpus[where.rank]; // all ranks are on this machine
  CommOptions commOptions;
  commOptions.rank = where.rank;
  commOptions.size = where.size;
  commOptions.rendezvous = where.rendezvous;
  device = makeDevice(deviceOptions);
  commOptions.backend = device->hostMemory() ? "gloo" : "nccl";
  commOptions.stream = device->stream(Lane::Transfer);
  commOptions.sharesGpu = std::set(options.gpus.begin(), options.gpus.end()).size() < options.gpus.size();
  communicator = makeCommunicator(commOptions);
  executor = Executor::create(std::move(plan), *device, *communicator);
}

} // namespace msamp::tools
