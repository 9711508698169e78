// What the kernels that move windows over images are called with.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_WINDOWARGS_H
#define MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_WINDOWARGS_H

#include <cstdint>

#include "runtime/core/Types.h"

namespace msamp::runtime::cuda {

struct WindowGrid {
  int64_t images = 0;
  int32_t in[3], out[3], size[3], stride[3], low[3], high[3], dilation[3];
};

// A value of the image, the filter or the windows from the two others: a thread each, of a filter a block each.
struct ConvKernelArgs {
  WindowGrid grid;
  void *x, *filter, *y; // [images, in.., C], [O, size.., C / groups], [images, out.., O]
  Type xType, filterType, yType;
  int64_t inChannels, outChannels, groups;
};

struct PoolKernelArgs {
  WindowGrid grid;
  void *x, *y; // [images, in.., channels], [images, out.., channels]
  uint8_t *tap;
  int64_t channels;
  bool largest, countPadding;
};

} // namespace msamp::runtime::cuda

#endif
