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
  // What values are divided by, or null: an entry for each rowBlock rows and 128 columns.
  const float *scale = nullptr;
  int64_t scaleStrides[2] = {};
  int64_t rowBlock = 1;
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

// to[o * inner + i] = 1 / from[o * outerStride + i * innerStride] for i < known, and 1 for those that fill up `inner`. Of both
// operands; outer 0: none.
struct InvertArgs {
  struct Side {
    const float *from = nullptr;
    float *to = nullptr;
    int64_t outer = 0, inner = 0, known = 0;
    int64_t outerStride = 0, innerStride = 0;
  } sides[2];
};

} // namespace msamp::runtime::cuda

#endif
