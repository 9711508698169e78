// Micro-batches, update, metrics, and a clean end.
#include "runtime/train/Trainer.h"

#include "runtime/core/Error.h"
#include "runtime/core/Output.h"
#include "runtime/monitor/Metrics.h"
#include "runtime/monitor/Progress.h"
#include "runtime/train/SaveWeights.h"
#include "runtime/train/Signals.h"

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

TrainResult train(Executor &executor, const data::Loader &loader, const TrainOptions &options) {
  using Clock = std::chrono::steady_clock;
  Communicator &communicator = executor.communicator();
  const plan::Plan &plan = executor.plan().plan;
  unsigned rank = communicator.rank(), ranks = communicator.size();
  unsigned microBatches = std::max(1u, plan.accumulate()); // on each rank
  uint64_t tokensPerMicroBatch = plan.tokens_per_micro_batch() > 0 ? plan.tokens_per_micro_batch() : loader.rows();
  RoleBytes roles = executor.memory();
  uint64_t memory = std::accumulate(roles.begin(), roles.end(), uint64_t{0});

  std::optional<monitor::MetricsFile> file;
  std::optional<monitor::Progress> progress;
  if (rank == 0) {
    if (!options.logFolder.empty())
      file.emplace(options.logFolder);
    progress.emplace(options.schedule.steps);
  }

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
    auto begin = Clock::now();
    for (unsigned i = 0; i < microBatches; ++i) {
      loader.fill(step, static_cast<uint64_t>(i) * ranks + rank, static_cast<uint64_t>(microBatches) * ranks,
                  [&](unsigned input) { return executor.inputHost(input); });
      executor.microStep(i, microBatches);
    }
    Hyper hyper = options.hyper;
    hyper.lr = options.schedule.at(step);
    StepResult update = executor.update(hyper);
    result.steps = step + 1;
    reason = agreeOnStop(communicator, trouble.has_value());
    if (rank != 0)
      continue;

    monitor::StepMetrics metrics;
    metrics.step = step + 1;
    metrics.loss = update.loss;
    metrics.lr = hyper.lr;
    metrics.gradNorm = update.gradNorm;
    metrics.tokens = tokensPerMicroBatch * microBatches * ranks;
    metrics.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    metrics.tokensPerSecond = static_cast<double>(metrics.tokens) / std::max(metrics.seconds, 1e-9);
    metrics.skipped = update.skipped;
    metrics.memoryBytes = memory;
    metrics.scales = describeScales(executor.scaleHealth());
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
