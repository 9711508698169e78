#include "runtime/device/cuda/Driver.h"

#include <dlfcn.h>

#include "runtime/core/Error.h"

namespace msamp::runtime::cuda {

namespace {

Driver load() {
  void *library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char *reason = ::dlerror();
    failTryAgain("no NVIDIA driver: libcuda.so.1 cannot be loaded ({}); install the driver, or run with --device cpu a plan "
                 "that was compiled with --target cpu",
        reason ? reason : "unknown reason");
  }
  Driver driver{};
  auto bind = [&](auto &member, const char *name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(::dlsym(library, name));
    if (!member)
      failTryAgain("the NVIDIA driver is too old: its libcuda.so.1 has no {}; a driver for CUDA 13 (580 or newer) is needed",
          name);
  };
// Two steps, so that names are those that cuda.h maps to.
#define MSAMP_STRING(name) #name
#define MSAMP_BIND(function) bind(driver.function, MSAMP_STRING(function));
  MSAMP_DRIVER_FUNCTIONS(MSAMP_BIND)
#undef MSAMP_BIND
#undef MSAMP_STRING
  const CUresult result = driver.cuInit(0);
  if (result == CUDA_ERROR_NO_DEVICE)
    failTryAgain("no NVIDIA GPU is visible to this process; check nvidia-smi and CUDA_VISIBLE_DEVICES, or run with --device "
                 "cpu a plan that was compiled with --target cpu");
  if (result != CUDA_SUCCESS) {
    const char *text = nullptr;
    driver.cuGetErrorString(result, &text);
    failTryAgain("the NVIDIA driver cannot be used: {}", text ? text : "unknown error");
  }
  int version = 0;
  driver.cuDriverGetVersion(&version);
  if (version < 13000)
    failTryAgain("the NVIDIA driver is too old: it serves CUDA {}.{}, and CUDA 13.0 is needed (driver 580 or newer)", version / 1000,
        version % 1000 / 10);
  return driver;
}

} // namespace

const Driver &Driver::get() {
  static const Driver driver = load();
  return driver;
}

void check(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = nullptr, *text = nullptr;
  Driver::get().cuGetErrorName(result, &name);
  Driver::get().cuGetErrorString(result, &text);
  const bool again = result == CUDA_ERROR_OUT_OF_MEMORY || result == CUDA_ERROR_ECC_UNCORRECTABLE ||
                     result == CUDA_ERROR_DEVICE_UNAVAILABLE;
  fail(again ? Exit::TryAgain : Exit::Internal, "{} failed: {} ({})", call, name ? name : "unknown error", text ? text : "?");
}

CUdeviceptr allocateMemory(size_t bytes, const char *purpose) {
  CUdeviceptr data = 0;
  const CUresult result = Driver::get().cuMemAlloc(&data, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    size_t free = 0, total = 0;
    MSAMP_CU(cuMemGetInfo, &free, &total);
    auto gib = [](size_t count) { return static_cast<double>(count) / 0x1p30; };
    failTryAgain("out of GPU memory: {:.2f} GiB were asked for {}, {:.2f} of {:.2f} GiB are free; compile with a smaller batch "
                 "(--dim), --recompute full or --level O3, or use more ranks with --zero 1",
        gib(bytes), purpose, gib(free), gib(total));
  }
  check(result, "cuMemAlloc");
  return data;
}

} // namespace msamp::runtime::cuda
