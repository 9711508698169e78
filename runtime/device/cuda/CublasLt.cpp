#include "runtime/device/cuda/CublasLt.h"

#include "runtime/core/Error.h"
#include "runtime/device/cuda/Libraries.h"

namespace msamp::runtime::cuda {

const CublasLt &CublasLt::get() {
  static const CublasLt table = [] {
    constexpr LibraryName name = {"libcublasLt.so.13", "cuBLASLt", "libcublas-13-0 or the CUDA 13 toolkit"};
    void *handle = openLibrary(name);
    CublasLt functions{};
#define MSAMP_BIND(function) bindSymbol(functions.function, handle, name, #function);
    MSAMP_CUBLASLT_FUNCTIONS(MSAMP_BIND)
#undef MSAMP_BIND
    return functions;
  }();
  return table;
}

void check(cublasStatus_t status, const char *call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    failInternal("{} failed: {}", call, CublasLt::get().cublasLtGetStatusName(status));
}

} // namespace msamp::runtime::cuda
