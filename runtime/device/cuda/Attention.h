// Attention and its gradients: cuDNN where it takes the shape, else kernels of our own.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_ATTENTION_H
#define MSAMP_RUNTIME_DEVICE_CUDA_ATTENTION_H

#include "runtime/device/Device.h"
#include "runtime/device/cuda/CudnnAttention.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/Scratch.h"

namespace msamp::runtime::cuda {

class Attention {
public:
  Attention(CUstream stream, Scratch &scratch, Cudnn &cudnn, AttentionOptions options = {});

  // Enqueue; all pointers are in device memory. The first call of a shape may build, allocate and wait; while the
  // stream is captured nothing of that happens.
  void forward(const AttentionArgs &args);
  void backward(const AttentionArgs &args);

private:
  bool forLibrary(const AttentionArgs &args);

  CUstream stream_;
  Scratch &scratch_;
  AttentionOptions options_;
  CudnnAttention cudnn_;
  Module module_; // loaded when it is first needed
};

} // namespace msamp::runtime::cuda

#endif
