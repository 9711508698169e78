// How far a plan's loss, outputs and gradients may be from an FP32 reference, derived from what the plan rounds.
#ifndef MSAMP_RUNTIME_TRAIN_TOLERANCE_H
#define MSAMP_RUNTIME_TRAIN_TOLERANCE_H

#include "runtime/plan/PlanIO.h"

#include <string>

namespace msamp::train {

struct Tolerances {
  double loss = 0, outputs = 0, gradients = 0;
  std::string reason; // how they were found, for people
};

// At fp32: 1e-5, 1e-4, 1e-4. Elsewhere from unit roundoffs (BF16 2^-8, E4M3 2^-4, E5M2 2^-3): rounding a value once is
// a relative error of u / sqrt(6) in the mean square, and independent errors add in squares. All roundings on the way
// are taken to act in full; residual branches dampen most of them, which leaves a margin of two to three.
Tolerances tolerancesOf(const plan::Plan &plan, const plan::Target &target);

} // namespace msamp::train

#endif
