// What surrounds a product where the library does not do it: operands packed or transposed, results scaled, added to
// and rounded, inverse scales.
#include "runtime/device/cuda/kernels/MatMulArgs.h"
#include "runtime/device/cuda/kernels/Values.cuh"

using namespace msamp::runtime;
using namespace msamp::runtime::cuda;

namespace {

__device__ int64_t batchOffset(const MatrixShape &shape, const MatrixView &view, int64_t batch) {
  int64_t offset = 0;
  for (unsigned d = shape.batchDims; d-- > 0;) {
    offset += batch % shape.batchShape[d] * view.strides[d];
    batch /= shape.batchShape[d];
  }
  return offset;
}

} // namespace

// Tiles of 32x32 through shared memory, so that reads and writes are both in sequence. 256 threads; grid: tiles,
// batches.
extern "C" __global__ void __launch_bounds__(256) msampPack(const __grid_constant__ PackArgs args) {
  __shared__ float tile[32][33];
  const MatrixShape &shape = args.shape;
  const int64_t tilesCols = (shape.cols + 31) / 32;
  const int64_t row0 = blockIdx.x / tilesCols * 32, col0 = blockIdx.x % tilesCols * 32;
  const int x = threadIdx.x % 32, y0 = threadIdx.x / 32;
  const bool alongRows = args.from.colStride != 1 && args.from.rowStride == 1;
  for (int64_t batch = blockIdx.y; batch < shape.batches; batch += gridDim.y) {
    const int64_t base = batchOffset(shape, args.from, batch);
    for (int y = y0; y < 32; y += 8) {
      const int64_t row = row0 + (alongRows ? x : y), col = col0 + (alongRows ? y : x);
      if (row >= shape.rows || col >= shape.cols)
        continue;
      float value =
          loadValue(args.from.data, args.from.type, base + row * args.from.rowStride + col * args.from.colStride);
      if (args.scale)
        value *= __frcp_rn(args.scale[row / args.rowBlock * args.scaleStrides[0] + col / 128 * args.scaleStrides[1]]);
      tile[row - row0][col - col0] = value;
    }
    __syncthreads();
    for (int y = y0; y < 32; y += 8) {
      const int64_t row = row0 + y, col = col0 + x;
      if (row < shape.rows && col < shape.cols)
        storeValue(args.to, args.toType, (batch * shape.rows + row) * shape.cols + col, tile[y][x]);
    }
    __syncthreads();
  }
}

// 256 threads along the columns of a row at a time; any grid.
extern "C" __global__ void __launch_bounds__(256) msampFinish(const __grid_constant__ FinishArgs args) {
  const MatrixShape &shape = args.shape;
  const int64_t count = shape.batches * shape.rows * shape.cols;
  const float scaleOut = args.scaleOut ? *args.scaleOut : 1.0f;
  unsigned largest = 0;
  for (int64_t i = blockIdx.x * 256l + threadIdx.x; i < count; i += gridDim.x * 256l) {
    const int64_t col = i % shape.cols, row = i / shape.cols % shape.rows, batch = i / shape.cols / shape.rows;
    float value = args.product ? args.product[i] : 0.0f;
    // Two factors, since the product of both scales may leave FP32's range.
    if (args.scaleA)
      value = value * __frcp_rn(args.scaleA[row * args.strideA]) * __frcp_rn(args.scaleB[col * args.strideB]);
    if (args.addend.data)
      value +=
          loadValue(args.addend.data, args.addend.type,
                    batchOffset(shape, args.addend, batch) + row * args.addend.rowStride + col * args.addend.colStride);
    if (args.bias.data)
      value += loadValue(args.bias.data, args.bias.type, col * args.bias.colStride);
    largest = max(largest, __float_as_uint(value) & 0x7fffffffu);
    storeValue(args.c.data, args.c.type,
               batchOffset(shape, args.c, batch) + row * args.c.rowStride + col * args.c.colStride, value * scaleOut);
  }
  if (args.amaxOut) {
    largest = __reduce_max_sync(0xffffffffu, largest);
    if (threadIdx.x % 32 == 0)
      atomicMax(args.amaxOut, largest);
  }
}

extern "C" __global__ void __launch_bounds__(256) msampInvert(const __grid_constant__ InvertArgs args) {
  const int64_t at = blockIdx.x * 256l + threadIdx.x;
  for (const InvertArgs::Side &side : args.sides)
    if (at < side.outer * side.inner) {
      const int64_t o = at / side.inner, i = at % side.inner;
      side.to[at] = i < side.known ? __frcp_rn(side.from[o * side.outerStride + i * side.innerStride]) : 1.0f;
    }
}
