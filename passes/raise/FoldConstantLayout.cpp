// Computes transposes and slices of dense constants, such as masks and rotary tables.
#include "ir/Msamp/Expr.h"
#include "passes/raise/Layout.h"
#include "passes/raise/Match.h"

using namespace mlir;

namespace msamp::raise {
namespace {

// Larger constants stay as ops: folding would hold several copies of them in memory.
constexpr int64_t maxBytes = int64_t(64) << 20;

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int64_t d = int64_t(shape.size()) - 2; d >= 0; --d)
    strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

// The elements of `dense` at `offset + sum(index[d] * strides[d])` for each index of the type's shape.
DenseElementsAttr gathered(DenseElementsAttr dense, RankedTensorType type, int64_t offset, ArrayRef<int64_t> strides) {
  unsigned bits = type.getElementTypeBitWidth();
  int64_t bytes = bits / 8, count = type.getNumElements();
  if (bits % 8 || count * bytes > maxBytes || dense.isSplat() || count == 0)
    return {};
  ArrayRef<char> from = dense.getRawData();
  std::vector<char> to(count * bytes);
  SmallVector<int64_t> index(type.getRank(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = offset;
    for (auto [x, stride] : llvm::zip(index, strides))
      at += x * stride;
    std::copy_n(from.data() + at * bytes, bytes, to.data() + i * bytes);
    for (int64_t d = type.getRank() - 1; d >= 0 && ++index[d] == type.getDimSize(d); --d)
      index[d] = 0;
  }
  return DenseElementsAttr::getFromRawBuffer(type, to);
}

struct TransposeOfConstant : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    DenseElementsAttr dense = constantOf(op.getInput());
    if (!dense)
      return failure();
    SmallVector<int64_t> in = rowMajorStrides(dense.getType().getShape()), strides;
    for (int64_t p : op.getPerm())
      strides.push_back(in[p]);
    DenseElementsAttr moved = gathered(dense, op.getType(), 0, strides);
    if (!moved)
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, moved);
    return success();
  }
};

struct SliceOfConstant : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    DenseElementsAttr dense = constantOf(op.getInput());
    if (!dense)
      return failure();
    SmallVector<int64_t> strides = rowMajorStrides(dense.getType().getShape());
    int64_t offset = 0;
    for (auto [d, start] : llvm::enumerate(op.getStarts())) {
      offset += start * strides[d];
      strides[d] *= op.getStrides()[d];
    }
    DenseElementsAttr part = gathered(dense, op.getType(), offset, strides);
    if (!part)
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, part);
    return success();
  }
};

} // namespace

void addConstantLayoutPatterns(RewritePatternSet &patterns) {
  patterns.add<TransposeOfConstant, SliceOfConstant>(patterns.getContext());
}

} // namespace msamp::raise
