// One optimizer step of one rank: its micro-batches and the update.
#ifndef MSAMP_RUNTIME_TRAIN_STEP_H
#define MSAMP_RUNTIME_TRAIN_STEP_H

#include "runtime/data/Loader.h"
#include "runtime/exec/Executor.h"

#include <cstdint>

namespace msamp::train {

// Collective. Micro-batch k of step `step` (from 0), counted over all ranks, is worked on by rank k mod R.
runtime::StepResult makeStep(runtime::Executor &executor, const data::Loader &loader, uint64_t step,
                             const runtime::Hyper &hyper);

// Tokens (rows, of a plan that has none) of a step over all ranks.
uint64_t tokensPerStep(const runtime::Executor &executor, const data::Loader &loader, unsigned ranks);

} // namespace msamp::train

#endif
