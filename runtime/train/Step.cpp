#include "runtime/train/Step.h"

#include <algorithm>

namespace msamp::train {
using namespace runtime;

unsigned Stepper::microBatches() const { return std::max(1u, executor.plan().plan.accumulate()); }

void Stepper::fill(uint64_t step, unsigned microBatch) {
  const uint64_t rank = executor.communicator().rank(), ranks = executor.communicator().size();
  loader.fill(step, microBatch * ranks + rank, microBatches() * ranks,
              [&](unsigned input) { return executor.inputHost(input); });
}

StepResult Stepper::step(uint64_t step, const Hyper &hyper, bool more) {
  const unsigned count = microBatches();
  for (unsigned i = 0; i < count; ++i) {
    if (i > 0 || ready != step)
      fill(step, i);
    executor.microStep(i, count);
  }
  ready.reset();
  return executor.update(hyper, [&] {
    if (!more)
      return;
    fill(step + 1, 0);
    executor.sendInputs();
    ready = step + 1;
  });
}

uint64_t tokensPerStep(const Executor &executor, const data::Loader &loader, unsigned ranks) {
  const plan::Plan &plan = executor.plan().plan;
  const uint64_t tokens = loader.readsTokens() ? plan.tokens_per_micro_batch() : loader.rows();
  return tokens * std::max(1u, plan.accumulate()) * ranks;
}

} // namespace msamp::train
