// cuDNN as all steps of a device share it: loaded and opened when the first of them needs it.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_CUDNN_H
#define MSAMP_RUNTIME_DEVICE_CUDA_CUDNN_H

#include "runtime/device/cuda/Driver.h"

#include <string>

struct cudnnContext;

namespace msamp::runtime::cuda {

class Cudnn {
public:
  explicit Cudnn(CUstream stream) : stream_(stream) {}
  ~Cudnn();
  Cudnn(const Cudnn &) = delete;
  Cudnn &operator=(const Cudnn &) = delete;

  // Whether this program was built with cuDNN's headers.
  static bool builtIn();
  // Its work goes to the stream. Error 75 if the library is not here, or does not fit the GPU or its driver.
  cudnnContext *handle();

private:
  CUstream stream_;
  cudnnContext *handle_ = nullptr;
};

// Says on standard error, once for each text, that cuDNN does not do `what` and why: our own kernels do, more slowly.
void tellSlowerWay(const std::string &what, const std::string &why);

} // namespace msamp::runtime::cuda

#endif
