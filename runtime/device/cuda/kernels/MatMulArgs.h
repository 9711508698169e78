// What the kernels around a product are called with.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_MATMULARGS_H
#define MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_MATMULARGS_H

#include <cstdint>

#include "runtime/core/Types.h"

namespace msamp::runtime::cuda {

inline constexpr unsigned maxBatchDims = 6;

// Matrices [rows, cols] at strides, over leading dimensions.
struct MatrixView {
  void *data = nullptr;
  Type type = Type::None;
  int64_t strides[maxBatchDims] = {}; // of the leading dimensions
  int64_t rowStride = 0, colStride = 0;
};

struct MatrixShape {
  unsigned batchDims = 0;
  int64_t batchShape[maxBatchDims] = {};
  int64_t batches = 1, rows = 0, cols = 0;
};

// from -> contiguous [batches, rows, cols] of another or the same type.
struct PackArgs {
  MatrixShape shape;
  MatrixView from;
  void *to = nullptr;
  Type toType = Type::None;
};

// c = round(scaleOut * (product / (scaleA scaleB) + addend)) and the largest magnitude before scaleOut.
struct FinishArgs {
  MatrixShape shape;
  const float *product = nullptr; // contiguous
  MatrixView c, addend, bias;     // addend.data, bias.data null: none
  const float *scaleA = nullptr, *scaleB = nullptr;
  int64_t strideA = 0, strideB = 0; // 0: one value
  const float *scaleOut = nullptr;
  unsigned *amaxOut = nullptr; // bits, 0 before
};

// to[i] = 1 / from[i * stride]
struct InvertArgs {
  const float *from[2] = {};
  float *to[2] = {};
  int64_t stride[2] = {}, count[2] = {};
};

} // namespace msamp::runtime::cuda

#endif
