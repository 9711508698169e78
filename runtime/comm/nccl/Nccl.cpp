#include "runtime/comm/nccl/Nccl.h"

#include "runtime/device/cuda/Libraries.h"

namespace msamp::runtime::nccl {

const Nccl &Nccl::get() {
  static const Nccl table = [] {
    constexpr cuda::LibraryName name = {"libnccl.so.2", "NCCL", "libnccl2 2.18 or newer"};
    void *handle = cuda::openLibrary(name);
    Nccl functions{};
#define MSAMP_BIND(function) cuda::bindSymbol(functions.function, handle, name, #function);
    MSAMP_NCCL_FUNCTIONS(MSAMP_BIND)
#undef MSAMP_BIND
    return functions;
  }();
  return table;
}

} // namespace msamp::runtime::nccl
