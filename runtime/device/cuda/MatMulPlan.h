// A product's descriptors and algorithm.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_MATMULPLAN_H
#define MSAMP_RUNTIME_DEVICE_CUDA_MATMULPLAN_H

#include "runtime/device/cuda/MatMul.h"

namespace msamp::runtime::cuda {

struct MatMul::Plan {
  cublasLtMatmulDesc_t op = nullptr;
  cublasLtMatrixLayout_t first = nullptr, second = nullptr, addend = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Plan() = default;
  Plan(const Plan &) = delete;
  Plan &operator=(const Plan &) = delete;
  ~Plan();
};

} // namespace msamp::runtime::cuda

#endif
