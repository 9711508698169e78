// Micro-batches, update, metrics, and a clean end.
#include "runtime/train/Trainer.h"

#include "runtime/core/Error.h"
#include "runtime/core/Output.h"
#include "runtime/monitor/Metrics.h"
#include "runtime/monitor/Progress.h"
#include "runtime/monitor/Trace.h"
#include "runtime/train/SaveWeights.h"
#include "runtime/train/Signals.h"
#include "runtime/train/Step.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <numeric>
#include <optional>
#include <vector>

namespace msamp::train {
using namespace runtime;

static std::string describeScales(const ScaleHealth &health) {
  if (health.sites == 0)
    return "";
  if (health.nonFinite > 0)
    return fmt::format("{} of {} not finite", health.nonFinite, health.sites);
  if (health.saturated > 0)
    return fmt::format("{} of {} saturated", health.saturated, health.sites);
  return "ok";
}

// Why all ranks must stop at the same step, if any must. The largest number wins.
constexpr int outputFailed = 1000; // above all signals

static int agreeOnStop(Communicator &communicator, bool failed) {
  std::vector<double> reasons(communicator.size());
  communicator.allGatherValue(failed ? outputFailed : stopSignal(), reasons);
  return static_cast<int>(*std::max_element(reasons.begin(), reasons.end()));
}

static const char *nameOf(int signal) { return signal == SIGINT ? "SIGINT" : signal == SIGHUP ? "SIGHUP" : "SIGTERM"; }

// The step whose trace is kept. The one before it is profiled as well: a device may prepare for that.
static uint64_t profiledStep(uint64_t steps) { return std::min<uint64_t>(steps - 1, 4); }

static void keepTrace(Executor &executor, const std::string &path) {
  std::vector<monitor::TraceEvent> events;
  for (const StepTime &time : executor.takeProfile())
    events.push_back({time.program, time.step, time.begin, time.end, time.beside});
  Communicator &communicator = executor.communicator();
  monitor::writeTrace(path, monitor::traceJson(executor.plan(), events, executor.device().description(),
                                               communicator.rank(), communicator.size()));
}

TrainResult train(Executor &executor, const data::Loader &loader, const TrainOptions &options) {
  using Clock = std::chrono::steady_clock;
  Communicator &communicator = executor.communicator();
  unsigned rank = communicator.rank();
  const uint64_t tokens = tokensPerStep(executor, loader, communicator.size());
  RoleBytes roles = executor.memory();
  uint64_t memory = std::accumulate(roles.begin(), roles.end(), uint64_t{0});

  std::optional<monitor::MetricsFile> file;
  std::optional<monitor::Progress> progress;
  if (rank == 0) {
    if (!options.logFolder.empty())
      file.emplace(options.logFolder);
    if (file && !file->earlier().empty())
      printOutput("the metrics of an earlier run are now in {}\n", file->earlier());
    progress.emplace(options.schedule.steps);
  }

  Stepper stepper(executor, loader);
  TrainResult result;
  // Progress or metrics that cannot be written end the run, but not before the weights are saved.
  std::optional<Error> trouble;
  auto writing = [&](auto &&write) {
    try {
      write();
    } catch (const Error &error) {
      if (!trouble)
        trouble = error;
    }
  };
  int reason = 0;
  for (uint64_t step = 0; step < options.schedule.steps && reason == 0; ++step) {
    const uint64_t profiled = profiledStep(options.schedule.steps);
    const bool profiling = !options.profileFile.empty() && (step == profiled || step + 1 == profiled);
    executor.setProfiling(profiling);
    auto begin = Clock::now();
    Hyper hyper = options.hyper;
    hyper.lr = options.schedule.at(step);
    StepResult update = stepper.step(step, hyper, step + 1 < options.schedule.steps);
    result.steps = step + 1;
    result.skipped += update.skipped;
    result.lossless += update.loss == 0;
    reason = agreeOnStop(communicator, trouble.has_value());
    if (rank != 0)
      continue;

    monitor::StepMetrics metrics;
    metrics.step = step + 1;
    metrics.loss = update.loss;
    metrics.lr = hyper.lr;
    metrics.gradNorm = update.gradNorm;
    metrics.tokens = tokens;
    metrics.unit = loader.readsTokens() ? "tok" : "samples";
    metrics.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    metrics.tokensPerSecond = static_cast<double>(metrics.tokens) / std::max(metrics.seconds, 1e-9);
    metrics.skipped = update.skipped;
    metrics.memoryBytes = memory;
    metrics.scales = describeScales(executor.scaleHealth());
    if (profiling && step == profiled)
      writing([&] { keepTrace(executor, options.profileFile); });
    if (file)
      writing([&] { file->append(metrics); });
    writing([&] { progress->show(metrics); });
  }
  if (progress)
    writing([&] { progress->finish(); });
  result.signal = reason == outputFailed ? 0 : reason;

  if (!options.saveFile.empty())
    saveWeights(executor, options.saveFile);
  // Nobody leaves before rank 0 has written: a rank that is gone would end the others.
  communicator.barrier();
  if (rank == 0)
    writing([&] {
      if (result.signal != 0)
        printOutput("stopped by {} after step {} of {}\n", nameOf(result.signal), result.steps, options.schedule.steps);
      if (!options.saveFile.empty())
        printOutput("weights saved to {}\n", options.saveFile);
    });
  if (trouble)
    failIo("{}; stopped after step {} of {}{}", trouble->what(), result.steps, options.schedule.steps,
           options.saveFile.empty() ? "" : fmt::format(", weights saved to {}", options.saveFile));
  return result;
}

} // namespace msamp::train
