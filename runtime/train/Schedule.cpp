// The formulas that Schedule.h states.
#include "runtime/train/Schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace msamp::train {

double Schedule::at(uint64_t step) const {
  if (step < warmup)
    return lr * static_cast<double>(step + 1) / static_cast<double>(warmup);
  if (decay == Decay::Constant)
    return lr;
  double length = steps > warmup ? static_cast<double>(steps - warmup) : 1.0;
  double p = std::min(1.0, static_cast<double>(step - warmup) / length);
  double factor = decay == Decay::Linear ? 1.0 - p : 0.5 * (1.0 + std::cos(std::numbers::pi * p));
  return minLr + (lr - minLr) * factor;
}

} // namespace msamp::train
