// The learning rate of each step: linear warm-up, then constant, linear or cosine down to a floor.
#ifndef MSAMP_RUNTIME_TRAIN_SCHEDULE_H
#define MSAMP_RUNTIME_TRAIN_SCHEDULE_H

#include <cstdint>
#include <string>

namespace msamp::train {

enum class Decay { Constant, Linear, Cosine };

// With steps counted from 0, w = warmup, n = steps:
//   s < w:   lr * (s + 1) / w
//   else:    p = (s - w) / (n - w), which grows from 0 to just under 1
//     constant  lr
//     linear    minLr + (lr - minLr) * (1 - p)
//     cosine    minLr + (lr - minLr) * (1 + cos(pi * p)) / 2
// The two decays are PyTorch's LinearLR and CosineAnnealingLR with T_max = n - w.
struct Schedule {
  double lr = 1e-4;
  double minLr = 1e-5;
  uint64_t warmup = 0;
  uint64_t steps = 1;
  Decay decay = Decay::Constant;

  double at(uint64_t step) const;
};

} // namespace msamp::train

#endif
