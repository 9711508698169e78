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

} // namespace msamp::runtime::cuda

#endif
