// Attention by cuDNN's fused kernels, in graphs built at the first use of a shape.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_CUDNNATTENTION_H
#define MSAMP_RUNTIME_DEVICE_CUDA_CUDNNATTENTION_H

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/device/Device.h"
#include "runtime/device/cuda/Cudnn.h"
#include "runtime/device/cuda/Scratch.h"

namespace msamp::runtime::cuda {

struct AttentionOptions {
  bool deterministic = true; // gradients with the same bits every time
  // Deterministic gradients keep a matrix [heads, queries, keys] a batch entry; as many entries go at a time as this
  // holds.
  size_t deterministicBytes = size_t{1} << 29;
  bool library = true; // false: only kernels of our own
};

class CudnnAttention {
public:
  CudnnAttention(Cudnn &cudnn, Scratch &scratch, const AttentionOptions &options);
  ~CudnnAttention();

  // False where cuDNN does not take the shape; `refusal` says why, for people. Error 75 if the library is not here.
  bool forward(const AttentionArgs &args);
  bool backward(const AttentionArgs &args);
  const std::string &refusal() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace msamp::runtime::cuda

#endif
