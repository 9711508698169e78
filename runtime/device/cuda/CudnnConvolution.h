// Convolutions by cuDNN, in graphs built at the first use of a shape.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_CUDNNCONVOLUTION_H
#define MSAMP_RUNTIME_DEVICE_CUDA_CUDNNCONVOLUTION_H

#include <memory>
#include <string>

#include "runtime/device/Device.h"
#include "runtime/device/cuda/Cudnn.h"
#include "runtime/device/cuda/Scratch.h"

namespace msamp::runtime::cuda {

class CudnnConvolution {
public:
  CudnnConvolution(Cudnn &cudnn, Scratch &scratch);
  ~CudnnConvolution();

  // The same bits every time; FP32 operands are multiplied as such. False where cuDNN does not take the shape; `refusal` says
  // why, for people. Error 75 if the library is not here.
  bool run(const ConvArgs &args);
  const std::string &refusal() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace msamp::runtime::cuda

#endif
