// What the attention kernels of our own are called with.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_ATTENTIONARGS_H
#define MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_ATTENTIONARGS_H

#include <cstdint>

#include "runtime/core/Types.h"

namespace msamp::runtime::cuda {

// A tensor [B, X, H, D], or the bias [B, H, T, S]; strides of broadcast dimensions are 0.
struct HeadsView {
  void *data = nullptr;
  Type type = Type::None;
  int64_t strides[4] = {};
};

struct AttentionKernelArgs {
  int64_t batches = 0, queries = 0, keys = 0, heads = 0, groups = 0, width = 0, valueWidth = 0;
  float scale = 1;
  bool causal = false;
  HeadsView q, k, v, o, dO, dQ, dK, dV, bias; // bias.data null: none
  float *lse = nullptr;
  int64_t lseStrides[3] = {};
  float *delta = nullptr; // [B, H, T], contiguous: sums of dO o, from the first kernel of the gradients to the second
};

} // namespace msamp::runtime::cuda

#endif
