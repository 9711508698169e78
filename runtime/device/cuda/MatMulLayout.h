// A product's tensors as matrices over batches, and as the column-major matrices that cuBLASLt multiplies.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_MATMULLAYOUT_H
#define MSAMP_RUNTIME_DEVICE_CUDA_MATMULLAYOUT_H

#include <cstdint>
#include <string>

#include "runtime/device/Device.h"
#include "runtime/device/cuda/kernels/MatMulArgs.h"

namespace msamp::runtime::cuda {

// One operand as the product sees it: `extent` rows (of A) or columns (of B), by K.
struct Operand {
  std::byte *data = nullptr;
  Type type = Type::None;
  int64_t extent = 0, k = 0;
  int64_t strideExtent = 0, strideK = 0;
  int64_t batchStrides[maxBatchDims] = {};

  // Rows that do not overlap, K in sequence; or K apart and the extent in sequence.
  bool kInnermost() const { return (strideK == 1 || k == 1) && (extent == 1 || strideExtent >= k); }
  bool extentInnermost() const { return (strideExtent == 1 || extent == 1) && (k == 1 || strideK >= extent); }
  // Elements from one column of the stored matrix to the next.
  int64_t leading() const { return kInnermost() ? (extent == 1 ? k : strideExtent) : (k == 1 ? extent : strideK); }
};

// C and the addend.
struct Result {
  std::byte *data = nullptr;
  Type type = Type::None;
  int64_t rowStride = 0, colStride = 0;
  int64_t batchStrides[maxBatchDims] = {};
};

// A product with its leading dimensions folded: those of extent 1 are gone, neighbours that lie in sequence are one.
struct Product {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  unsigned batchDims = 0;
  int64_t batchShape[maxBatchDims] = {};
  Operand a, b;
  Result c, addend;
  bool hasAddend = false;

  MatrixShape shape(int64_t rows, int64_t cols) const;
};

// Error 70 where ranks or shapes do not fit each other.
Product productOf(const MatMulArgs &args);

MatrixView viewOf(const Operand &operand);
MatrixView viewOf(const Result &result);

// One stored column-major matrix of a cuBLASLt call.
struct Stored {
  std::byte *data = nullptr;
  Type type = Type::None;
  bool transposed = false;
  int64_t rows = 0, cols = 0, leading = 0, batchStride = 0;
  int64_t callStrides = 0; // from call to call: or of all, for alignment
};

// D (rows x cols, column-major) = op(first) op(second) + addend. The first is B where C is row-major: C^T = B^T A^T.
struct Call {
  int64_t rows = 0, cols = 0, k = 0, batches = 1;
  bool firstIsB = true;
  Stored first, second, addend, d;
  bool hasAddend = false;
};

// Whether cuBLASLt can read and write the tensors where they are (by layout; types are another matter), and how: one
// call for the last folded leading dimension.
bool callOf(const Product &product, Call &call);
// Elements to skip in a tensor with these strides for call `index` of the leading dimensions before the last.
int64_t outerOffset(const Product &product, const int64_t *batchStrides, int64_t index);

// Largest power of two up to 256 that divides the address and what is added to it from batch to batch.
unsigned alignmentOf(const void *data, std::initializer_list<int64_t> strideBytes);

} // namespace msamp::runtime::cuda

#endif
