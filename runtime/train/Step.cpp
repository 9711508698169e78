#include "runtime/train/Step.h"

#include <algorithm>

namespace msamp::train {
using namespace runtime;

StepResult makeStep(Executor &executor, const data::Loader &loader, uint64_t step, const Hyper &hyper) {
  const uint64_t rank = executor.communicator().rank(), ranks = executor.communicator().size();
  const unsigned microBatches = std::max(1u, executor.plan().plan.accumulate()); // on each rank
  for (unsigned i = 0; i < microBatches; ++i) {
    loader.fill(step, i * ranks + rank, microBatches * ranks, [&](unsigned input) { return executor.inputHost(input); });
    executor.microStep(i, microBatches);
  }
  return executor.update(hyper);
}

uint64_t tokensPerStep(const Executor &executor, const data::Loader &loader, unsigned ranks) {
  const plan::Plan &plan = executor.plan().plan;
  const uint64_t tokens = plan.tokens_per_micro_batch() > 0 ? plan.tokens_per_micro_batch() : loader.rows();
  return tokens * std::max(1u, plan.accumulate()) * ranks;
}

} // namespace msamp::train
