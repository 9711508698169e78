// One optimizer step of one rank: its micro-batches and the update.
#ifndef MSAMP_RUNTIME_TRAIN_STEP_H
#define MSAMP_RUNTIME_TRAIN_STEP_H

#include "runtime/data/Loader.h"
#include "runtime/exec/Executor.h"

#include <cstdint>
#include <optional>

namespace msamp::train {

// Micro-batch k of a step, counted over all ranks, is worked on by rank k mod R. While a device still computes the last of a step,
// the host reads the first of the next.
class Stepper {
public:
  Stepper(runtime::Executor &executor, const data::Loader &loader) : executor(executor), loader(loader) {}

  // Collective. Step `step` (from 0); `more`: the next one follows.
  runtime::StepResult step(uint64_t step, const runtime::Hyper &hyper, bool more);

private:
  void fill(uint64_t step, unsigned microBatch);
  unsigned microBatches() const;

  runtime::Executor &executor;
  const data::Loader &loader;
  std::optional<uint64_t> ready; // step whose first micro-batch is in the executor's inputs
};

// Tokens of a step over all ranks; samples, of a plan that reads no tokens.
uint64_t tokensPerStep(const runtime::Executor &executor, const data::Loader &loader, unsigned ranks);

} // namespace msamp::train

#endif
