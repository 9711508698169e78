// Arguments of the control kernels that go by value.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_CONTROLARGS_H
#define MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_CONTROLARGS_H

#include <cstdint>

#include "runtime/device/StepRules.h"

namespace msamp::runtime::cuda {

// Scalars of a step and the entries of a table that they belong to; as many as fit into a kernel's parameters.
inline constexpr unsigned scalarsAtOnce = 256;
struct ScalarList {
  const float *values[scalarsAtOnce];
  uint32_t entries[scalarsAtOnce];
  uint32_t count;
};

// Part of the gradients of a class; `ctas` blocks of threads write a partial sum each.
struct SquaresArgs {
  const void *data;
  Type type;
  const float *blockScale, *parameterScale;
  const int32_t *owner;
  int64_t blocks;
  double *partials;
};

inline constexpr unsigned squaresThreads = 256;

} // namespace msamp::runtime::cuda

#endif
