// Convolutions: cuDNN where it takes the shape, else kernels of our own.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_CONVOLUTION_H
#define MSAMP_RUNTIME_DEVICE_CUDA_CONVOLUTION_H

#include "runtime/device/Device.h"
#include "runtime/device/cuda/CudnnConvolution.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/kernels/WindowArgs.h"

namespace msamp::runtime::cuda {

// Windows with three dimensions, whatever there are: missing ones come first and are of one position.
WindowGrid gridOf(const Window &window, const Tensor &x, const Tensor &y);
// Of kernels/Windows.cu, loaded at the first call.
CUfunction windowKernel(Module &module, const char *symbol);

class Convolution {
public:
  // `module` holds the kernels of our own and outlives this.
  Convolution(CUstream stream, Scratch &scratch, Cudnn &cudnn, Module &module)
      : stream_(stream), module_(module), cudnn_(cudnn, scratch) {}

  // Enqueues; all pointers are in device memory. The first call of a shape may build, allocate and wait; while the stream is
  // captured nothing of that happens.
  void run(const ConvArgs &args);

private:
  CUstream stream_;
  Module &module_;
  CudnnConvolution cudnn_;
};

} // namespace msamp::runtime::cuda

#endif
