#include "runtime/device/cuda/Module.h"

#include <array>
#include <utility>

#include "runtime/core/Error.h"

namespace msamp::runtime::cuda {

Module::Module(const void *image, std::string name) : name_(std::move(name)) {
  std::array<char, 4096> log{};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
  const CUresult result = Driver::get().cuModuleLoadDataEx(&module_, image, 2, options, values);
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    failData("the driver is too old to compile the kernels {}: install a newer one, or compile the plan where ptxas is, which puts "
             "a cubin beside the PTX",
        name_);
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_PTX ||
      result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_INVALID_SOURCE)
    failData("the driver refuses the kernels {}: {}", name_, log[0] ? log.data() : "they are not for this GPU or driver");
  check(result, "cuModuleLoadDataEx");
}

Module::~Module() {
  if (module_)
    Driver::get().cuModuleUnload(module_);
}

Module::Module(Module &&other) noexcept
    : module_(std::exchange(other.module_, nullptr)), name_(std::move(other.name_)), functions_(std::move(other.functions_)) {}

Module &Module::operator=(Module &&other) noexcept {
  std::swap(module_, other.module_);
  std::swap(name_, other.name_);
  std::swap(functions_, other.functions_);
  return *this;
}

CUfunction Module::function(const std::string &symbol, unsigned sharedBytes) {
  auto [known, added] = functions_.try_emplace(symbol, nullptr);
  if (!added)
    return known->second;
  if (Driver::get().cuModuleGetFunction(&known->second, module_, symbol.c_str()) != CUDA_SUCCESS) {
    functions_.erase(known);
    failData("{}: has no kernel {}; compile the plan again", name_, symbol);
  }
  if (sharedBytes > 48 * 1024)
    MSAMP_CU(cuFuncSetAttribute, known->second, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(sharedBytes));
  return known->second;
}

} // namespace msamp::runtime::cuda
