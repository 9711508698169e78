#include "tests/gpu/Gpu.h"

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <thread>

namespace msamp::gputest {
namespace {

void *library() {
  static void *handle = dlopen("libcuda.so.1", RTLD_NOW);
  if (!handle)
    throw GpuError("no GPU: libcuda.so.1 cannot be loaded (it comes with NVIDIA's driver)", true);
  return handle;
}

// The driver's function of that name, called with what is given: all are int f(...) of integers and pointers.
template <typename... Args>
int call(const char *name, Args... args) {
  void *found = dlsym(library(), name);
  if (!found)
    throw GpuError(std::string("the driver has no ") + name + "; it is too old", true);
  return reinterpret_cast<int (*)(Args...)>(found)(args...);
}

// Errors after which the context is of no use.
bool isLost(int result) {
  return result == 700 || result == 702 || (result >= 714 && result <= 719);
}

constexpr int attributeMajor = 75, attributeMinor = 76, functionLocalBytes = 3, functionRegisters = 4,
              functionDynamicShared = 8, notReady = 600;

} // namespace

#define GPU(name, ...) check(call(#name, __VA_ARGS__), #name)

void Gpu::check(int result, const char *what) {
  if (result == 0)
    return;
  const char *text = "unknown error";
  call("cuGetErrorName", result, &text);
  throw GpuError(std::string(what) + ": " + text, isLost(result));
}

Gpu::Gpu() {
  GPU(cuInit, 0u);
  int device = 0;
  GPU(cuDeviceGet, &device, 0);
  char text[256] = "";
  GPU(cuDeviceGetName, text, 256, device);
  deviceName = text;
  int major = 0, minor = 0;
  GPU(cuDeviceGetAttribute, &major, attributeMajor, device);
  GPU(cuDeviceGetAttribute, &minor, attributeMinor, device);
  computeCapability = major * 10 + minor;
  void *context = nullptr;
  GPU(cuDevicePrimaryCtxRetain, &context, device);
  GPU(cuCtxSetCurrent, context);
  GPU(cuEventCreate, &before, 0u);
  GPU(cuEventCreate, &after, 0u);
}

Address Gpu::allocate(size_t bytes) {
  Address address = 0;
  GPU(cuMemAlloc_v2, &address, std::max<size_t>(bytes, 256));
  return address;
}
void Gpu::release(Address address) {
  GPU(cuMemFree_v2, address);
}
void Gpu::upload(Address to, const void *from, size_t bytes) {
  GPU(cuMemcpyHtoD_v2, to, from, bytes);
}
void Gpu::download(void *to, Address from, size_t bytes) {
  GPU(cuMemcpyDtoH_v2, to, from, bytes);
}
void Gpu::copy(Address to, Address from, size_t bytes) {
  void *stream = nullptr;
  GPU(cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
}
void Gpu::fill(Address to, uint8_t value, size_t bytes) {
  GPU(cuMemsetD8_v2, to, static_cast<int>(value), bytes);
}

void *Gpu::loadModule(const std::string &image) {
  void *module = nullptr;
  GPU(cuModuleLoadData, &module, static_cast<const void *>(image.c_str()));
  return module;
}
void *Gpu::function(void *module, const std::string &symbol) {
  void *function = nullptr;
  GPU(cuModuleGetFunction, &function, module, symbol.c_str());
  return function;
}
int Gpu::registersOf(void *function) {
  int value = 0;
  GPU(cuFuncGetAttribute, &value, functionRegisters, function);
  return value;
}
int Gpu::localBytesOf(void *function) {
  int value = 0;
  GPU(cuFuncGetAttribute, &value, functionLocalBytes, function);
  return value;
}

void Gpu::prepare(const Launch &launch) {
  if (launch.shared > 0)
    GPU(cuFuncSetAttribute, launch.function, functionDynamicShared, static_cast<int>(launch.shared));
}

void Gpu::launch(const Launch &launch, const std::vector<Address> &args) {
  std::vector<void *> pointers;
  for (const Address &address : args)
    pointers.push_back(const_cast<Address *>(&address));
  void *stream = nullptr;
  void **extra = nullptr;
  GPU(cuLaunchKernel, launch.function, launch.gridX, launch.gridY, 1u, launch.block, 1u, 1u, launch.shared, stream,
      pointers.data(), extra);
}

void Gpu::synchronize(double seconds) {
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  void *stream = nullptr;
  for (int result; (result = call("cuStreamQuery", stream)) != 0;) {
    if (result != notReady)
      check(result, "run");
    if (Clock::now() > deadline)
      throw GpuError("does not end", true);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

double Gpu::microseconds(const std::function<void(int)> &work, int least) {
  constexpr int batches = 5;
  const int batch = (least + batches - 1) / batches;
  void *stream = nullptr;
  for (int i = 0; i < 3; ++i)
    work(i);
  synchronize();
  std::vector<double> times;
  for (int b = 0, n = 3; b < batches; ++b) {
    GPU(cuEventRecord, before, stream);
    for (int i = 0; i < batch; ++i)
      work(n++);
    GPU(cuEventRecord, after, stream);
    synchronize();
    float ms = 0;
    GPU(cuEventElapsedTime, &ms, before, after);
    times.push_back(ms * 1e3 / batch);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

} // namespace msamp::gputest
