// A loaded CUDA module (cubin, fatbin or PTX) and its functions.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_MODULE_H
#define MSAMP_RUNTIME_DEVICE_CUDA_MODULE_H

#include "runtime/device/cuda/Driver.h"

#include <map>
#include <string>

namespace msamp::runtime::cuda {

class Module {
public:
  Module() = default;
  // `image` is a cubin, a fatbin or PTX that ends with 0; `name` is for messages. Error 65 where the driver refuses it.
  Module(const void *image, std::string name);
  ~Module();
  Module(Module &&other) noexcept;
  Module &operator=(Module &&other) noexcept;

  explicit operator bool() const { return module_ != nullptr; }
  // Error 65 if the module has no such function; with `sharedBytes` of dynamic shared memory allowed.
  CUfunction function(const std::string &symbol, unsigned sharedBytes = 0);

private:
  CUmodule module_ = nullptr;
  std::string name_;
  std::map<std::string, CUfunction> functions_;
};

// Starts a kernel with arguments by value.
template <class... Args>
void launch(CUstream stream, CUfunction function, unsigned gridX, unsigned gridY, unsigned block, unsigned shared, Args... args) {
  void *pointers[] = {static_cast<void *>(&args)...};
  MSAMP_CU(cuLaunchKernel, function, gridX, gridY, 1, block, 1, 1, shared, stream, pointers, nullptr);
}

} // namespace msamp::runtime::cuda

#endif
