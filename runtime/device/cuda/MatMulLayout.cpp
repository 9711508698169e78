#include "runtime/device/cuda/MatMulLayout.h"

#include <algorithm>

#include "runtime/core/Error.h"
#include "runtime/device/FoldedDims.h"

namespace msamp::runtime::cuda {

namespace {

// Batches that share B are rows of one taller A.
void foldIntoRows(Product &p, bool rowScales) {
  if (rowScales || p.batchDims == 0)
    return;
  const unsigned d = p.batchDims - 1;
  // One row a batch: the step from row to row is the one from batch to batch.
  auto follows = [&](int64_t batchStride, int64_t rowStride) { return p.m == 1 || batchStride == p.m * rowStride; };
  if (p.b.batchStrides[d] != 0 || !follows(p.a.batchStrides[d], p.a.strideExtent) ||
      !follows(p.c.batchStrides[d], p.c.rowStride) ||
      (p.hasAddend && !follows(p.addend.batchStrides[d], p.addend.rowStride)))
    return;
  if (p.m == 1) {
    p.a.strideExtent = p.a.batchStrides[d];
    p.c.rowStride = p.c.batchStrides[d];
    p.addend.rowStride = p.addend.batchStrides[d];
  }
  p.m *= p.batchShape[d];
  p.a.extent = p.m;
  p.batches /= p.batchShape[d];
  --p.batchDims;
  foldIntoRows(p, rowScales);
}

} // namespace

MatrixShape Product::shape(int64_t rows, int64_t cols) const {
  MatrixShape s;
  s.batchDims = batchDims;
  std::copy_n(batchShape, batchDims, s.batchShape);
  s.batches = batches;
  s.rows = rows;
  s.cols = cols;
  return s;
}

Product productOf(const MatMulArgs &args) {
  const Tensor &a = args.a, &b = args.b, &c = args.c;
  const unsigned rank = c.rank;
  if (rank < 2 || a.rank != rank || b.rank != rank || (args.hasAddend && args.addend.rank != rank))
    failInternal("a product of tensors of {}, {} and {} dimensions", a.rank, b.rank, rank);
  const unsigned row = rank - 2, col = rank - 1;
  Product p;
  p.m = c.shape[row];
  p.n = c.shape[col];
  p.k = args.transposeA ? a.shape[row] : a.shape[col];
  const unsigned aRow = args.transposeA ? col : row, aK = args.transposeA ? row : col;
  const unsigned bCol = args.transposeB ? row : col, bK = args.transposeB ? col : row;
  if (a.shape[aRow] != p.m || b.shape[bCol] != p.n || b.shape[bK] != p.k)
    failInternal("a product of {}x{} and {}x{} matrices to {}x{}", a.shape[aRow], p.k, b.shape[bK], b.shape[bCol], p.m,
                 p.n);
  if (args.hasAddend && !std::equal(c.shape, c.shape + rank, args.addend.shape))
    failInternal("a product and its addend are of different shapes");
  p.a = {a.data, a.type, p.m, p.k, a.strides[aRow], a.strides[aK], {}};
  p.b = {b.data, b.type, p.n, p.k, b.strides[bCol], b.strides[bK], {}};
  p.c = {c.data, c.type, c.strides[row], c.strides[col], {}};
  p.hasAddend = args.hasAddend;
  if (p.hasAddend)
    p.addend = {args.addend.data, args.addend.type, args.addend.strides[row], args.addend.strides[col], {}};

  FoldedDims<4> leads;
  auto strideOf = [](const Tensor &tensor, unsigned d) { return tensor.shape[d] == 1 ? 0 : tensor.strides[d]; };
  for (unsigned d = 0; d + 2 < rank; ++d) {
    p.batches *= c.shape[d];
    leads.append(c.shape[d],
                 {strideOf(a, d), strideOf(b, d), c.strides[d], p.hasAddend ? strideOf(args.addend, d) : 0});
  }
  p.batchDims = leads.rank;
  for (unsigned d = 0; d < leads.rank; ++d) {
    p.batchShape[d] = leads.shape[d];
    int64_t *const strides[] = {p.a.batchStrides, p.b.batchStrides, p.c.batchStrides, p.addend.batchStrides};
    for (size_t t = 0; t < std::size(strides); ++t)
      strides[t][d] = leads.strides[d][t];
  }
  foldIntoRows(p, args.scaled && args.scaleA.rank > 0);
  return p;
}

MatrixView viewOf(const Operand &operand) {
  MatrixView view;
  view.data = operand.data;
  view.type = operand.type;
  std::copy_n(operand.batchStrides, maxBatchDims, view.strides);
  view.rowStride = operand.strideExtent;
  view.colStride = operand.strideK;
  return view;
}

MatrixView viewOf(const Result &result) {
  MatrixView view;
  view.data = result.data;
  view.type = result.type;
  std::copy_n(result.batchStrides, maxBatchDims, view.strides);
  view.rowStride = result.rowStride;
  view.colStride = result.colStride;
  return view;
}

bool callOf(const Product &p, Call &call) {
  auto rowMajor = [&](const Result &r) { return (r.colStride == 1 || p.n == 1) && (p.m == 1 || r.rowStride >= p.n); };
  auto columnMajor = [&](const Result &r) {
    return (r.rowStride == 1 || p.m == 1) && (p.n == 1 || r.colStride >= p.m);
  };
  const bool rows = rowMajor(p.c);
  if (!(rows ? !p.hasAddend || rowMajor(p.addend) : columnMajor(p.c) && (!p.hasAddend || columnMajor(p.addend))))
    return false;
  call.firstIsB = rows;
  call.rows = rows ? p.n : p.m;
  call.cols = rows ? p.m : p.n;
  call.k = p.k;
  const int inner = static_cast<int>(p.batchDims) - 1; // dimension that one call covers
  call.batches = inner < 0 ? 1 : p.batchShape[inner];
  auto batchStride = [&](const int64_t *strides) { return inner < 0 ? 0 : strides[inner]; };
  auto callStrides = [&](const int64_t *strides) {
    int64_t bits = 0;
    for (int d = 0; d < inner; ++d)
      bits |= strides[d];
    return bits;
  };
  auto stored = [&](const Operand &o, bool first, Stored &s) {
    if (!o.kInnermost() && !o.extentInnermost())
      return false;
    const bool kInnermost = o.kInnermost();
    s = {o.data,
         o.type,
         kInnermost == first,
         kInnermost ? o.k : o.extent,
         kInnermost ? o.extent : o.k,
         o.leading(),
         batchStride(o.batchStrides),
         callStrides(o.batchStrides)};
    return true;
  };
  if (!stored(rows ? p.b : p.a, true, call.first) || !stored(rows ? p.a : p.b, false, call.second))
    return false;
  auto result = [&](const Result &r) {
    const int64_t between = rows ? r.rowStride : r.colStride;
    return Stored{r.data,
                  r.type,
                  false,
                  call.rows,
                  call.cols,
                  call.cols == 1 ? call.rows : between,
                  batchStride(r.batchStrides),
                  callStrides(r.batchStrides)};
  };
  call.d = result(p.c);
  call.hasAddend = p.hasAddend;
  if (p.hasAddend)
    call.addend = result(p.addend);
  return true;
}

int64_t outerOffset(const Product &p, const int64_t *batchStrides, int64_t index) {
  int64_t offset = 0;
  for (int d = static_cast<int>(p.batchDims) - 2; d >= 0; --d) {
    offset += index % p.batchShape[d] * batchStrides[d];
    index /= p.batchShape[d];
  }
  return offset;
}

unsigned alignmentOf(const void *data, std::initializer_list<int64_t> strideBytes) {
  uint64_t bits = reinterpret_cast<uintptr_t>(data) | 256;
  for (int64_t stride : strideBytes)
    bits |= static_cast<uint64_t>(stride);
  return static_cast<unsigned>(bits & (~bits + 1));
}

} // namespace msamp::runtime::cuda
