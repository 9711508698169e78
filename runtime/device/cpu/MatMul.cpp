// Matrix products in tiles: narrow operands are widened to FP32 tile by tile, oneDNN multiplies, the result is scaled and
// rounded. Tiles depend on the shape alone, so the bits do not depend on the number of threads.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include <oneapi/dnnl/dnnl.h>

#include "runtime/core/Error.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/Gemm.h"

namespace msamp::runtime::cpu {

void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
    int64_t ldb, float beta, float *c, int64_t ldc) {
  dnnl_status_t status = dnnl_sgemm(transposeA ? 'T' : 'N', transposeB ? 'T' : 'N', m, n, k, 1.0f, a, lda, b, ldb, beta, c, ldc);
  if (status != dnnl_success)
    failInternal("oneDNN refused a product of {}x{}x{} (status {})", m, n, k, static_cast<int>(status));
}

namespace {

// The last two dimensions of an operand, with rows and columns as the product sees them.
struct Matrix {
  const std::byte *data;
  Type type;
  int64_t rows, cols;           // as the product sees it, after transposition
  int64_t rowStride, colStride; // in elements
};

Matrix matrixOf(const Tensor &tensor, bool transpose, const std::byte *data) {
  const unsigned r = tensor.rank;
  Matrix m{data, tensor.type, tensor.shape[r - 2], tensor.shape[r - 1], tensor.strides[r - 2], tensor.strides[r - 1]};
  if (transpose) {
    std::swap(m.rows, m.cols);
    std::swap(m.rowStride, m.colStride);
  }
  return m;
}

struct TileView {
  const float *data;
  int64_t ld;
  bool transposed; // columns contiguous instead of rows
};

// Rows [r0, r0+rows) x columns [c0, c0+cols) as FP32: where they lie, or widened into `scratch` in their own layout.
TileView tileOf(const VectorOps &ops, const Matrix &m, int64_t r0, int64_t rows, int64_t c0, int64_t cols, float *scratch) {
  const size_t size = sizeOf(m.type);
  const std::byte *base = m.data + static_cast<size_t>(r0 * m.rowStride + c0 * m.colStride) * size;
  const bool rowsContiguous = m.colStride == 1 || cols == 1, colsContiguous = m.rowStride == 1 || rows == 1;
  if (m.type == Type::F32) {
    const float *data = reinterpret_cast<const float *>(base);
    if (rowsContiguous && (m.rowStride >= cols || rows == 1))
      return {data, std::max(m.rowStride, cols), false};
    if (colsContiguous && (m.colStride >= rows || cols == 1))
      return {data, std::max(m.colStride, rows), true};
  }
  auto widen = ops.decode[static_cast<size_t>(m.type)];
  if (rowsContiguous) {
    if (m.rowStride == cols)
      widen(base, scratch, rows * cols);
    else
      for (int64_t i = 0; i < rows; ++i)
        widen(base + static_cast<size_t>(i * m.rowStride) * size, scratch + i * cols, cols);
    return {scratch, cols, false};
  }
  if (colsContiguous) {
    for (int64_t j = 0; j < cols; ++j)
      widen(base + static_cast<size_t>(j * m.colStride) * size, scratch + j * rows, rows);
    return {scratch, rows, true};
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      widen(base + static_cast<size_t>(i * m.rowStride + j * m.colStride) * size, scratch + i * cols + j, 1);
  return {scratch, cols, false};
}

// sum += one row of `cols` values.
void addRow(const VectorOps &ops, const Tensor &tensor, const std::byte *row, float *sum, int64_t cols, float *scratch) {
  const int64_t stride = tensor.strides[tensor.rank - 1];
  const size_t size = sizeOf(tensor.type);
  auto widen = ops.decode[static_cast<size_t>(tensor.type)];
  if (stride == 1)
    widen(row, scratch, cols);
  else
    for (int64_t j = 0; j < cols; ++j)
      widen(row + static_cast<size_t>(j * stride) * size, scratch + j, 1);
  ops.add(sum, scratch, cols);
}

// Divides the widened tile of a matrix, from (e0, k0) on, by the scales of its blocks. `extent` is the operand's size beside the
// summed dimension; `kInnermost` says how the tile lies.
void unscale(const VectorOps &ops, const Tensor &scale, int64_t extent, int64_t e0, int64_t extents, int64_t k0,
    int64_t depth, bool kInnermost, float *tile, int64_t ld) {
  const int64_t step = MatMulArgs::scaleExtent(scale, extent);
  auto inverse = [&](int64_t e, int64_t block) {
    return 1.0f / reinterpret_cast<const float *>(scale.data)[(e0 + e) / step * scale.strides[0] + block * scale.strides[1]];
  };
  float column[512];
  for (int64_t k = 0; k < depth; k += scaleBlock) {
    const int64_t block = (k0 + k) / scaleBlock, count = std::min(scaleBlock, depth - k);
    if (kInnermost) {
      for (int64_t e = 0; e < extents; ++e)
        ops.scale(tile + e * ld + k, inverse(e, block), count);
      continue;
    }
    for (int64_t e = 0; e < extents; ++e)
      column[e] = inverse(e, block);
    for (int64_t i = k; i < k + count; ++i)
      ops.multiply(tile + i * ld, column, extents);
  }
}

bool widened(const Matrix &m) { return m.type != Type::F32 || (m.rowStride != 1 && m.colStride != 1); }

// Side lengths of tiles: as large as caches like, but enough of them for several threads.
void chooseTiles(int64_t batches, int64_t m, int64_t n, int64_t &tileM, int64_t &tileN) {
  tileM = std::min<int64_t>(m, 256);
  tileN = std::min<int64_t>(n, 512);
  auto count = [&] { return batches * ((m + tileM - 1) / tileM) * ((n + tileN - 1) / tileN); };
  auto half = [](int64_t x) { return ((x + 1) / 2 + 15) / 16 * 16; };
  while (count() < 8 && std::max(tileM, tileN) > 64) {
    if (tileN > tileM)
      tileN = half(tileN);
    else
      tileM = half(tileM);
  }
}

} // namespace

void CpuDevice::matmul(const MatMulArgs &args) {
  const unsigned rank = args.c.rank;
  if (rank < 2 || args.a.rank != rank || args.b.rank != rank)
    failInternal("a product of tensors of {}, {} and {} dimensions", args.a.rank, args.b.rank, rank);
  if (args.hasBias && (args.bias.rank != 1 || args.bias.shape[0] != args.c.shape[rank - 1]))
    failInternal("a product and its bias are of different shapes");
  if (args.hasAddend && (args.addend.rank != rank || !std::equal(args.c.shape, args.c.shape + rank, args.addend.shape)))
    failInternal("a product and its addend are of different shapes");
  const int64_t m = args.c.shape[rank - 2], n = args.c.shape[rank - 1];
  const int64_t k = args.transposeA ? args.a.shape[rank - 2] : args.a.shape[rank - 1];
  int64_t batches = 1;
  for (unsigned d = 0; d + 2 < rank; ++d)
    batches *= args.c.shape[d];
  if (args.amaxOut)
    *args.amaxOut = 0.0f;
  if (m == 0 || n == 0 || batches == 0)
    return;
  if (k == 0 && !args.hasAddend && !args.hasBias)
    return fill(args.c, 0.0);

  int64_t tileM, tileN;
  chooseTiles(batches, m, n, tileM, tileN);
  const int64_t tilesM = (m + tileM - 1) / tileM, tilesN = (n + tileN - 1) / tileN;
  const Matrix a0 = matrixOf(args.a, args.transposeA, args.a.data), b0 = matrixOf(args.b, args.transposeB, args.b.data);
  const bool direct = args.c.type == Type::F32 && !args.hasAddend && args.c.strides[rank - 1] == 1 && args.c.strides[rank - 2] >= n;
  const bool widenA = widened(a0), widenB = widened(b0);
  const int64_t tileK = widenA || widenB ? std::min<int64_t>(k, 1024) : k;

  auto offsetOf = [rank](const Tensor &tensor, int64_t batch) {
    int64_t offset = 0;
    for (unsigned d = rank - 2; d-- > 0;) {
      offset += batch % tensor.shape[d] * tensor.strides[d];
      batch /= tensor.shape[d];
    }
    return static_cast<size_t>(offset) * sizeOf(tensor.type);
  };
  auto scaleAt = [](const Tensor &scale, int64_t i) {
    if (scale.rank == 2) // divided by already
      return 1.0f;
    return reinterpret_cast<const float *>(scale.data)[scale.rank == 0 ? 0 : i * scale.strides[0]];
  };
  if (args.scaledByBlocks() && !(isFp8(args.a.type) && isFp8(args.b.type)))
    failInternal("a product of {} and {} with scales of blocks", nameOf(args.a.type), nameOf(args.b.type));

  const float scaleOut = args.scaleOut ? *args.scaleOut : 1.0f;
  std::atomic<uint32_t> amaxBits = 0;

  pool_.run(batches * tilesM * tilesN, [&](int64_t tile, unsigned thread) {
    const int64_t batch = tile / (tilesM * tilesN), i0 = tile / tilesN % tilesM * tileM, j0 = tile % tilesN * tileN;
    const int64_t rows = std::min(tileM, m - i0), cols = std::min(tileN, n - j0);
    Matrix a = a0, b = b0;
    a.data += offsetOf(args.a, batch);
    b.data += offsetOf(args.b, batch);
    std::byte *cBase = args.c.data + offsetOf(args.c, batch) +
                       static_cast<size_t>(i0 * args.c.strides[rank - 2] + j0 * args.c.strides[rank - 1]) * sizeOf(args.c.type);
    auto round16 = [](int64_t x) { return (x + 15) / 16 * 16; };
    const int64_t sizeA = widenA ? round16(rows * tileK) : 0, sizeB = widenB ? round16(cols * tileK) : 0;
    float *scratch = scratch_[thread].get(static_cast<size_t>(sizeA + sizeB + rows * cols + cols + 16));
    float *result = direct ? reinterpret_cast<float *>(cBase) : scratch + sizeA + sizeB;
    const int64_t ld = direct ? args.c.strides[rank - 2] : cols;
    if (k == 0)
      std::memset(result, 0, static_cast<size_t>(rows * cols) * sizeof(float));
    for (int64_t k0 = 0; k0 < k; k0 += tileK) {
      const int64_t depth = std::min(tileK, k - k0);
      TileView av = tileOf(ops_, a, i0, rows, k0, depth, scratch);
      TileView bv = tileOf(ops_, b, k0, depth, j0, cols, scratch + sizeA);
      if (args.scaled && args.scaleA.rank == 2)
        unscale(ops_, args.scaleA, m, i0, rows, k0, depth, !av.transposed, scratch, av.ld);
      if (args.scaled && args.scaleB.rank == 2)
        unscale(ops_, args.scaleB, n, j0, cols, k0, depth, bv.transposed, scratch + sizeA, bv.ld);
      gemm(av.transposed, bv.transposed, rows, cols, depth, av.data, av.ld, bv.data, bv.ld, k0 > 0 ? 1.0f : 0.0f, result, ld);
    }
    if (args.scaled) {
      float columns[512];
      for (int64_t j = 0; j < cols; ++j)
        columns[j] = 1.0f / scaleAt(args.scaleB, j0 + j);
      for (int64_t i = 0; i < rows; ++i) {
        const float row = 1.0f / scaleAt(args.scaleA, i0 + i);
        // Two factors, since the product of both scales may leave FP32's range.
        if (args.scaleB.rank != 1) {
          ops_.scale(result + i * ld, row, cols);
          ops_.scale(result + i * ld, columns[0], cols);
        } else {
          ops_.multiply(result + i * ld, columns, cols);
          ops_.scale(result + i * ld, row, cols);
        }
      }
    }
    if (args.hasAddend) {
      const std::byte *addend =
          args.addend.data + offsetOf(args.addend, batch) +
          static_cast<size_t>(i0 * args.addend.strides[rank - 2] + j0 * args.addend.strides[rank - 1]) * sizeOf(args.addend.type);
      for (int64_t i = 0; i < rows; ++i)
        addRow(ops_, args.addend, addend + static_cast<size_t>(i * args.addend.strides[rank - 2]) * sizeOf(args.addend.type),
            result + i * ld, cols, result + rows * cols);
    }
    if (args.hasBias) {
      const std::byte *bias = args.bias.data + static_cast<size_t>(j0 * args.bias.strides[0]) * sizeOf(args.bias.type);
      for (int64_t i = 0; i < rows; ++i)
        addRow(ops_, args.bias, bias, result + i * ld, cols, scratch + sizeA + sizeB + rows * cols);
    }
    if (args.amaxOut) {
      uint32_t largest = 0;
      for (int64_t i = 0; i < rows; ++i)
        largest = std::max(largest, ops_.largestMagnitude(result + i * ld, cols));
      for (uint32_t seen = amaxBits.load(); seen < largest && !amaxBits.compare_exchange_weak(seen, largest);) {
      }
    }
    if (args.scaleOut)
      for (int64_t i = 0; i < rows; ++i)
        ops_.scale(result + i * ld, scaleOut, cols);
    if (!direct) {
      auto narrow = ops_.encode[static_cast<size_t>(args.c.type)];
      const size_t size = sizeOf(args.c.type);
      for (int64_t i = 0; i < rows; ++i) {
        std::byte *row = cBase + static_cast<size_t>(i * args.c.strides[rank - 2]) * size;
        if (args.c.strides[rank - 1] == 1)
          narrow(result + i * cols, row, cols);
        else
          for (int64_t j = 0; j < cols; ++j)
            narrow(result + i * cols + j, row + static_cast<size_t>(j * args.c.strides[rank - 1]) * size, 1);
      }
    }
  });
  if (args.amaxOut)
    *args.amaxOut = std::bit_cast<float>(amaxBits.load());
}

} // namespace msamp::runtime::cpu
