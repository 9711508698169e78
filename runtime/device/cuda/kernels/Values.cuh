// Elements of any float type as FP32, in kernels whose element type is known only at run time.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_VALUES_CUH
#define MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_VALUES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "runtime/core/Types.h"

namespace msamp::runtime::cuda {

__device__ inline float loadValue(const void *data, Type type, int64_t i) {
  switch (type) {
  case Type::F32:
    return static_cast<const float *>(data)[i];
  case Type::BF16:
    return __bfloat162float(static_cast<const __nv_bfloat16 *>(data)[i]);
  case Type::F16:
    return __half2float(static_cast<const __half *>(data)[i]);
  case Type::E4M3:
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<const __nv_fp8_storage_t *>(data)[i], __NV_E4M3)));
  case Type::E5M2:
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(static_cast<const __nv_fp8_storage_t *>(data)[i], __NV_E5M2)));
  default:
    return 0;
  }
}

// To nearest even; FP8 saturates.
__device__ inline void storeValue(void *data, Type type, int64_t i, float value) {
  switch (type) {
  case Type::F32:
    static_cast<float *>(data)[i] = value;
    break;
  case Type::BF16:
    static_cast<__nv_bfloat16 *>(data)[i] = __float2bfloat16_rn(value);
    break;
  case Type::F16:
    static_cast<__half *>(data)[i] = __float2half_rn(value);
    break;
  case Type::E4M3:
    static_cast<__nv_fp8_storage_t *>(data)[i] = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
    break;
  case Type::E5M2:
    static_cast<__nv_fp8_storage_t *>(data)[i] = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);
    break;
  default:
    break;
  }
}

// Eight neighbours of BF16 or FP32 from i on, which lie at a multiple of 16 bytes: as they are, and as FP32.
template <Type type> struct Eight {
  static_assert(type == Type::BF16 || type == Type::F32);
  uint4 words[sizeOf(type) / 2] = {};

  Eight() = default; // zeros
  __device__ Eight(const void *data, int64_t i) {
#pragma unroll
    for (unsigned w = 0; w < sizeOf(type) / 2; ++w)
      words[w] = reinterpret_cast<const uint4 *>(static_cast<const char *>(data) + i * sizeOf(type))[w];
  }
  __device__ void addTo(float (&sums)[8]) const {
    const uint32_t low[4] = {words[0].x, words[0].y, words[0].z, words[0].w};
    if constexpr (type == Type::F32) {
      const uint32_t high[4] = {words[1].x, words[1].y, words[1].z, words[1].w};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[e] += __uint_as_float(low[e]), sums[4 + e] += __uint_as_float(high[e]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sums[2 * e] += __uint_as_float(low[e] << 16), sums[2 * e + 1] += __uint_as_float(low[e] & 0xffff0000u);
    }
  }
};
template <Type type> __device__ inline void storeEight(void *data, int64_t i, const float (&values)[8]) {
  static_assert(type == Type::BF16 || type == Type::F32);
  if constexpr (type == Type::F32) {
    auto *at = reinterpret_cast<float4 *>(static_cast<float *>(data) + i);
    at[0] = {values[0], values[1], values[2], values[3]};
    at[1] = {values[4], values[5], values[6], values[7]};
  } else {
    uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(values[2 * w], values[2 * w + 1]);
      words[w] = *reinterpret_cast<const uint32_t *>(&two);
    }
    *reinterpret_cast<uint4 *>(static_cast<uint16_t *>(data) + i) = {words[0], words[1], words[2], words[3]};
  }
}

} // namespace msamp::runtime::cuda

#endif
