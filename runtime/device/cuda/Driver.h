// libcuda, loaded when a CUDA device is asked for: one binary serves machines with and without a GPU.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_DRIVER_H
#define MSAMP_RUNTIME_DEVICE_CUDA_DRIVER_H

#include <cuda.h>

#include <string>

namespace msamp::runtime::cuda {

#define MSAMP_DRIVER_FUNCTIONS(X)                                                                                      \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuGetErrorString)                                                \
  X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetAttribute)                                        \
  X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent)                                          \
  X(cuCtxGetCurrent) X(cuCtxGetStreamPriorityRange)                                                                    \
  X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) X(cuMemAllocHost) X(cuMemFreeHost)                                        \
  X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD8Async) X(cuMemsetD16Async)                \
  X(cuMemsetD32Async)                                                                                                  \
  X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncSetAttribute) X(cuFuncGetAttribute)           \
  X(cuLaunchKernel)                                                                                                    \
  X(cuStreamCreateWithPriority) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamQuery)        \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamIsCapturing)                                                 \
  X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuGraphDestroy)                              \
  X(cuEventCreate) X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventDestroy) X(cuEventElapsedTime) X(cuEventSynchronize)

// The driver's functions by the names of cuda.h (which maps some of them to versioned symbols).
struct Driver {
#define MSAMP_DECLARE(function) decltype(&::function) function;
  MSAMP_DRIVER_FUNCTIONS(MSAMP_DECLARE)
#undef MSAMP_DECLARE

  // Loads libcuda.so.1 and initialises it. Error 75 if there is none, or if it finds no device.
  static const Driver &get();
};

// Error 70 that names the call and CUDA's error; 75 where memory ran out or the device was lost.
void check(CUresult result, const char *call);

// Device memory for what `purpose` says ("the plan"). Error 75 where there is not enough: what was asked for, what is free and
// what helps.
CUdeviceptr allocateMemory(size_t bytes, const char *purpose);

} // namespace msamp::runtime::cuda

// MSAMP_CU(cuStreamSynchronize, stream): calls and checks.
#define MSAMP_CU(function, ...)                                                                                        \
  ::msamp::runtime::cuda::check(::msamp::runtime::cuda::Driver::get().function(__VA_ARGS__), #function)

#endif
