#include "tools/msamp-bench/Measure.h"

#include "runtime/plan/MemoryTable.h"
#include "runtime/plan/ModelFlops.h"
#include "runtime/plan/StepTraits.h"
#include "runtime/train/Step.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

namespace msamp::bench {
using namespace runtime;

namespace {

// A line "Name:  123 kB" of /proc/self/status.
uint64_t statusBytes(const std::string &name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":"))
      return std::stoull(line.substr(name.size() + 1)) * 1024;
  return 0;
}

double medianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

uint64_t largestOfRanks(Communicator &communicator, uint64_t value) {
  std::vector<double> all(communicator.size());
  communicator.allGatherValue(static_cast<double>(value), all);
  return static_cast<uint64_t>(*std::max_element(all.begin(), all.end()));
}

Memory memoryOf(Executor &executor, uint64_t residentBefore) {
  Communicator &communicator = executor.communicator();
  DeviceMemory used = executor.device().memory();
  if (used.peak == 0)
    used.peak = statusBytes("VmHWM") - std::min(statusBytes("VmHWM"), residentBefore);
  const RoleBytes roles = memoryOfRank(executor.plan().plan, executor.plan().target(), communicator.rank(), communicator.size());
  Memory memory;
  memory.peak = largestOfRanks(communicator, used.peak);
  memory.predicted = largestOfRanks(communicator, std::accumulate(roles.begin(), roles.end(), uint64_t{0}));
  memory.libraries = largestOfRanks(communicator, used.libraries);
  memory.context = largestOfRanks(communicator, used.context);
  return memory;
}

// The profile of one training step, like steps together, in the order of the first of them.
std::vector<KernelTime> sumUp(const LoadedPlan &loaded, const std::vector<StepTime> &profile, unsigned ranks) {
  const plan::Plan &plan = loaded.plan;
  std::vector<KernelTime> kernels;
  std::map<std::string, size_t> known;
  for (const StepTime &time : profile) {
    const plan::Step &step = *time.step;
    const std::string shape = shapeOf(plan, step);
    auto [at, added] = known.insert({shape, kernels.size()});
    if (added) {
      KernelTime &kernel = kernels.emplace_back();
      kernel.shape = shape;
      kernel.kind = kindOf(step);
      kernel.operands = operandType(step);
      kernel.beside = time.beside;
      kernel.bytes = bytesOf(plan, step, ranks);
      kernel.flops = step.flops();
      kernel.what = step.has_launch() ? loaded.target().kernels(static_cast<int>(step.launch().kernel())).cluster()
                    : step.nodes_size() > 0 ? step.nodes(0) + (step.backward() ? " (backward)" : "") : "";
    }
    kernels[at->second].count += 1;
    kernels[at->second].seconds += time.end - time.begin;
  }
  return kernels;
}

} // namespace

double Measurement::median() const { return medianOf(seconds); }

uint64_t residentBytes() { return statusBytes("VmRSS"); }

Measurement measure(Executor &executor, const data::Loader &loader, const Options &options, uint64_t residentBefore) {
  using Clock = std::chrono::steady_clock;
  Measurement result;
  Communicator &communicator = executor.communicator();
  const plan::Plan &plan = executor.plan().plan;
  result.tokens = train::tokensPerStep(executor, loader, communicator.size());
  result.unit = loader.readsTokens() ? "tokens" : "samples";
  result.flops = modelFlops(executor.plan().target()) * std::max(1u, plan.accumulate()) * communicator.size();
  // Initial weights are drawn in FP32: that is not part of the training's peak.
  std::ofstream("/proc/self/clear_refs") << "5";

  train::Stepper stepper(executor, loader);
  uint64_t step = 0;
  auto makeStep = [&] {
    const auto begin = Clock::now();
    StepResult done = stepper.step(step++, options.hyper, true);
    result.losses.push_back(done.loss);
    result.gradNorm = done.gradNorm;
    result.skipped += done.skipped;
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (uint64_t i = 0; i < options.warmup; ++i)
    makeStep();
  for (uint64_t i = 0; i < options.steps; ++i)
    result.seconds.push_back(makeStep());
  result.memory = memoryOf(executor, residentBefore);

  // The first profiled step is left out: a device may prepare for it.
  constexpr size_t profiled = 5;
  std::vector<std::vector<KernelTime>> profiles;
  const std::vector<double> losses = result.losses;
  for (size_t i = 0; i <= profiled; ++i) {
    executor.setProfiling(true);
    makeStep();
    if (i > 0)
      profiles.push_back(sumUp(executor.plan(), executor.takeProfile(), communicator.size()));
  }
  executor.setProfiling(false);
  result.losses = losses;
  result.kernels = profiles.front();
  for (size_t k = 0; k < result.kernels.size(); ++k) {
    std::vector<double> times;
    for (const auto &profile : profiles)
      if (k < profile.size())
        times.push_back(profile[k].seconds);
    result.kernels[k].seconds = medianOf(times);
  }
  return result;
}

} // namespace msamp::bench
