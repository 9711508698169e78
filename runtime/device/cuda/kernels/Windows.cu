// Windows that move over images: pools, and convolutions for what cuDNN does not take. Sums are in FP32 in a fixed order.
#include "runtime/device/cuda/kernels/Values.cuh"
#include "runtime/device/cuda/kernels/WindowArgs.h"

using namespace msamp::runtime;
using namespace msamp::runtime::cuda;

namespace {

// A position of an image or a window among its neighbours, all counted in row-major order.
struct Place {
  int64_t image;
  int32_t at[3];
  __device__ Place(int64_t i, const int32_t (&extent)[3]) {
    at[2] = static_cast<int32_t>(i % extent[2]);
    i /= extent[2];
    at[1] = static_cast<int32_t>(i % extent[1]);
    i /= extent[1];
    at[0] = static_cast<int32_t>(i % extent[0]);
    image = i / extent[0];
  }
};

__device__ int64_t indexOf(int64_t image, int32_t a, int32_t b, int32_t c, const int32_t (&extent)[3]) {
  return ((image * extent[0] + a) * extent[1] + b) * extent[2] + c;
}

// visit(position, tap) for each tap of a window that is on the image, in row-major order.
template <class Visit> __device__ void taps(const WindowGrid &g, const Place &window, Visit visit) {
  for (int32_t i = 0; i < g.size[0]; ++i) {
    const int32_t a = window.at[0] * g.stride[0] - g.low[0] + i * g.dilation[0];
    if (a < 0 || a >= g.in[0])
      continue;
    for (int32_t j = 0; j < g.size[1]; ++j) {
      const int32_t b = window.at[1] * g.stride[1] - g.low[1] + j * g.dilation[1];
      if (b < 0 || b >= g.in[1])
        continue;
      for (int32_t k = 0; k < g.size[2]; ++k) {
        const int32_t c = window.at[2] * g.stride[2] - g.low[2] + k * g.dilation[2];
        if (c >= 0 && c < g.in[2])
          visit(indexOf(window.image, a, b, c, g.in), (i * g.size[1] + j) * g.size[2] + k);
      }
    }
  }
}

// visit(window, tap) for each window that has a tap on the position, in the order of the taps.
template <class Visit> __device__ void windowsOver(const WindowGrid &g, const Place &position, Visit visit) {
  auto along = [&](int d, int32_t tap, int32_t &window) {
    const int32_t from = position.at[d] + g.low[d] - tap * g.dilation[d];
    window = from / g.stride[d];
    return from >= 0 && window * g.stride[d] == from && window < g.out[d];
  };
  int32_t a, b, c;
  for (int32_t i = 0; i < g.size[0]; ++i) {
    if (!along(0, i, a))
      continue;
    for (int32_t j = 0; j < g.size[1]; ++j) {
      if (!along(1, j, b))
        continue;
      for (int32_t k = 0; k < g.size[2]; ++k)
        if (along(2, k, c))
          visit(indexOf(position.image, a, b, c, g.out), (i * g.size[1] + j) * g.size[2] + k);
    }
  }
}

// What the mean of a window divides by.
__device__ float countOf(const WindowGrid &g, const int32_t (&window)[3], bool padding) {
  int32_t count = 1;
  for (int d = 0; d < 3; ++d) {
    int32_t along = 0;
    for (int32_t tap = 0; tap < g.size[d]; ++tap) {
      const int32_t position = window[d] * g.stride[d] - g.low[d] + tap * g.dilation[d];
      along += position >= (padding ? -g.low[d] : 0) && position < g.in[d] + (padding ? g.high[d] : 0);
    }
    count *= along;
  }
  return static_cast<float>(count);
}

//===--- Pools: a thread takes N neighbouring channels, 16 bytes of them where they are aligned ---------------------------===//

__device__ float widen(float x) { return x; }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float widen(__half x) { return __half2float(x); }
__device__ void narrow(float &to, float x) { to = x; }
__device__ void narrow(__nv_bfloat16 &to, float x) { to = __float2bfloat16_rn(x); }
__device__ void narrow(__half &to, float x) { to = __float2half_rn(x); }

template <class T, int N> struct alignas(sizeof(T) * N) Run {
  T values[N];
};

template <class T, int N> __device__ void load(const void *data, int64_t i, float (&to)[N]) {
  const auto run = reinterpret_cast<const Run<T, N> *>(static_cast<const T *>(data) + i)[0];
  for (int c = 0; c < N; ++c)
    to[c] = widen(run.values[c]);
}

template <class T, int N> __device__ void store(void *data, int64_t i, const float (&from)[N]) {
  Run<T, N> run;
  for (int c = 0; c < N; ++c)
    narrow(run.values[c], from[c]);
  reinterpret_cast<Run<T, N> *>(static_cast<T *>(data) + i)[0] = run;
}

template <class T, int N> __device__ void pool(const PoolKernelArgs &a) {
  const WindowGrid &g = a.grid;
  const int64_t runs = a.channels / N, count = g.images * g.out[0] * g.out[1] * g.out[2] * runs;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t channel = i % runs * N;
    const Place window(i / runs, g.out);
    float best[N] = {}, value[N];
    Run<uint8_t, N> taken = {};
    bool first = true;
    taps(g, window, [&](int64_t position, int32_t tap) {
      load<T, N>(a.x, position * a.channels + channel, value);
      for (int c = 0; c < N; ++c) {
        if (!a.largest) {
          best[c] += value[c];
        } else if (first || value[c] > best[c] || (value[c] != value[c] && best[c] == best[c])) {
          best[c] = value[c];
          taken.values[c] = static_cast<uint8_t>(tap);
        }
      }
      first = false;
    });
    if (a.largest) {
      reinterpret_cast<Run<uint8_t, N> *>(a.tap)[i] = taken;
    } else {
      const float factor = 1.0f / countOf(g, window.at, a.countPadding);
      for (int c = 0; c < N; ++c)
        best[c] *= factor;
    }
    store<T, N>(a.y, i * N, best);
  }
}

template <class T, int N> __device__ void poolGradient(const PoolKernelArgs &a) {
  const WindowGrid &g = a.grid;
  const int64_t runs = a.channels / N, count = g.images * g.in[0] * g.in[1] * g.in[2] * runs;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t channel = i % runs * N;
    const Place position(i / runs, g.in);
    float sum[N] = {}, value[N];
    windowsOver(g, position, [&](int64_t window, int32_t tap) {
      const int64_t at = window * a.channels + channel;
      load<T, N>(a.y, at, value);
      if (a.largest) {
        const auto taken = reinterpret_cast<const Run<uint8_t, N> *>(a.tap + at)[0];
        for (int c = 0; c < N; ++c)
          sum[c] += taken.values[c] == tap ? value[c] : 0.0f;
      } else {
        const float factor = 1.0f / countOf(g, Place(window, g.out).at, a.countPadding);
        for (int c = 0; c < N; ++c)
          sum[c] += value[c] * factor;
      }
    });
    store<T, N>(a.x, i * N, sum);
  }
}

__device__ float blockSum(float x) {
  __shared__ float parts[8];
  for (int offset = 16; offset > 0; offset /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  if (threadIdx.x % 32 == 0)
    parts[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < 8; ++w)
    sum += parts[w];
  __syncthreads();
  return sum;
}

} // namespace

#define MSAMP_POOLS(NAME, T, N)                                                                                              \
  extern "C" __global__ void __launch_bounds__(256) msampPool##NAME(const __grid_constant__ PoolKernelArgs args) {           \
    pool<T, N>(args);                                                                                                        \
  }                                                                                                                          \
  extern "C" __global__ void __launch_bounds__(256) msampPoolGradient##NAME(const __grid_constant__ PoolKernelArgs args) {   \
    poolGradient<T, N>(args);                                                                                                \
  }
MSAMP_POOLS(F32, float, 1)
MSAMP_POOLS(F32Wide, float, 4)
MSAMP_POOLS(BF16, __nv_bfloat16, 1)
MSAMP_POOLS(BF16Wide, __nv_bfloat16, 8)
MSAMP_POOLS(F16, __half, 1)
MSAMP_POOLS(F16Wide, __half, 8)

//===--- Convolutions -----------------------------------------------------------------------------------------------------===//

extern "C" __global__ void __launch_bounds__(256) msampConv(const __grid_constant__ ConvKernelArgs a) {
  const WindowGrid &g = a.grid;
  const int64_t perGroup = a.inChannels / a.groups, count = g.images * g.out[0] * g.out[1] * g.out[2] * a.outChannels;
  const int64_t filter = static_cast<int64_t>(g.size[0]) * g.size[1] * g.size[2];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t o = i % a.outChannels, first = o / (a.outChannels / a.groups) * perGroup;
    float sum = 0;
    taps(g, Place(i / a.outChannels, g.out), [&](int64_t position, int32_t tap) {
      for (int64_t c = 0; c < perGroup; ++c)
        sum += loadValue(a.x, a.xType, position * a.inChannels + first + c) *
               loadValue(a.filter, a.filterType, (o * filter + tap) * perGroup + c);
    });
    storeValue(a.y, a.yType, i, sum);
  }
}

extern "C" __global__ void __launch_bounds__(256) msampConvImageGradient(const __grid_constant__ ConvKernelArgs a) {
  const WindowGrid &g = a.grid;
  const int64_t perGroup = a.inChannels / a.groups, outPerGroup = a.outChannels / a.groups;
  const int64_t count = g.images * g.in[0] * g.in[1] * g.in[2] * a.inChannels;
  const int64_t filter = static_cast<int64_t>(g.size[0]) * g.size[1] * g.size[2];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const int64_t c = i % a.inChannels, first = c / perGroup * outPerGroup;
    float sum = 0;
    windowsOver(g, Place(i / a.inChannels, g.in), [&](int64_t window, int32_t tap) {
      for (int64_t o = first; o < first + outPerGroup; ++o)
        sum += loadValue(a.y, a.yType, window * a.outChannels + o) *
               loadValue(a.filter, a.filterType, (o * filter + tap) * perGroup + c % perGroup);
    });
    storeValue(a.x, a.xType, i, sum);
  }
}

extern "C" __global__ void __launch_bounds__(256) msampConvFilterGradient(const __grid_constant__ ConvKernelArgs a) {
  const WindowGrid &g = a.grid;
  const int64_t perGroup = a.inChannels / a.groups, filter = static_cast<int64_t>(g.size[0]) * g.size[1] * g.size[2];
  const int64_t windows = g.images * g.out[0] * g.out[1] * g.out[2];
  for (int64_t i = blockIdx.x; i < a.outChannels * filter * perGroup; i += gridDim.x) {
    const int64_t o = i / (filter * perGroup), c = o / (a.outChannels / a.groups) * perGroup + i % perGroup;
    const auto tap = static_cast<int32_t>(i / perGroup % filter);
    const int32_t at[3] = {tap / (g.size[1] * g.size[2]), tap / g.size[2] % g.size[1], tap % g.size[2]};
    float sum = 0;
    for (int64_t w = threadIdx.x; w < windows; w += blockDim.x) {
      const Place window(w, g.out);
      int32_t p[3];
      bool on = true;
      for (int d = 0; d < 3; ++d) {
        p[d] = window.at[d] * g.stride[d] - g.low[d] + at[d] * g.dilation[d];
        on = on && p[d] >= 0 && p[d] < g.in[d];
      }
      if (on)
        sum += loadValue(a.x, a.xType, indexOf(window.image, p[0], p[1], p[2], g.in) * a.inChannels + c) *
               loadValue(a.y, a.yType, w * a.outChannels + o);
    }
    sum = blockSum(sum);
    if (threadIdx.x == 0)
      storeValue(a.filter, a.filterType, i, sum);
  }
}
