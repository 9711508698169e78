// Merges and cancels reshapes, transposes, slices and broadcasts.
#include "ir/Msamp/Expr.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/raise/Layout.h"
#include "passes/raise/Match.h"
#include "passes/raise/Passes.h"

using namespace mlir;

namespace msamp::raise {

#define GEN_PASS_DEF_SIMPLIFYLAYOUT
#include "passes/raise/Passes.h.inc"

namespace {

Expr at(PatternRewriter &rewriter, Operation *op, Value v) {
  return {rewriter, op->getLoc(), v};
}

// A transpose that moves only dimensions of size 1 is a reshape.
struct UnitTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    int64_t previous = -1;
    for (int64_t p : op.getPerm()) {
      if (tensorTypeOf(op.getInput()).getDimSize(p) == 1)
        continue;
      if (p < previous)
        return failure();
      previous = p;
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};

struct SliceOfTranspose : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    auto perm = transpose.getPerm();
    int64_t rank = perm.size();
    SmallVector<int64_t> starts(rank), strides(rank), shape(rank);
    for (int64_t i = 0; i < rank; ++i) {
      starts[perm[i]] = op.getStarts()[i];
      strides[perm[i]] = op.getStrides()[i];
      shape[perm[i]] = op.getType().getDimSize(i);
    }
    auto type = RankedTensorType::get(shape, op.getType().getElementType());
    Value part = SliceOp::create(rewriter, op.getLoc(), type, transpose.getInput(), starts, strides);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), part, perm);
    return success();
  }
};

// A slice along the outermost dimension that a reshape split off is a slice of the unsplit dimension.
struct SliceOfReshape : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getInput().getDefiningOp<ReshapeOp>();
    if (!reshape)
      return failure();
    auto in = tensorTypeOf(reshape.getInput()), mid = reshape.getType(), out = op.getType();
    auto groups = groupDims(in.getShape(), mid.getShape());
    if (!groups)
      return failure();
    SmallVector<int64_t> starts(in.getRank(), 0), strides(in.getRank(), 1), shape(in.getShape());
    for (const DimGroup &g : *groups) {
      int64_t inner = 1;
      bool touched = false;
      for (int64_t d = g.bEnd - 1; d >= g.bBegin; --d) {
        if (touched && mid.getDimSize(d) != 1)
          return failure();
        if (out.getDimSize(d) != mid.getDimSize(d)) {
          if (g.aCount() != 1 || op.getStrides()[d] != 1)
            return failure();
          touched = true;
          starts[g.aBegin] = op.getStarts()[d] * inner;
          shape[g.aBegin] = out.getDimSize(d) * inner;
        }
        inner *= mid.getDimSize(d);
      }
    }
    auto type = RankedTensorType::get(shape, in.getElementType());
    Value part = SliceOp::create(rewriter, op.getLoc(), type, reshape.getInput(), starts, strides);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, out, part);
    return success();
  }
};

// A reshape of a transpose that only adds or drops dimensions of size 1 goes before the transpose.
struct UnitReshapeOfTranspose : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<TransposeOp>();
    if (!transpose || skipUnits(op.getResult()) == op.getResult())
      return failure();
    auto in = tensorTypeOf(transpose.getInput()), out = op.getType();
    // Non-unit dimensions of the operand in their order, after as many unit ones as the result has.
    SmallVector<int64_t> shape, position(in.getRank(), -1);
    int64_t units = llvm::count(out.getShape(), 1);
    shape.assign(units, 1);
    for (int64_t d = 0; d < in.getRank(); ++d)
      if (in.getDimSize(d) != 1) {
        position[d] = shape.size();
        shape.push_back(in.getDimSize(d));
      }
    SmallVector<int64_t> order; // of the non-unit dimensions in the result
    for (int64_t p : transpose.getPerm())
      if (position[p] >= 0)
        order.push_back(position[p]);
    SmallVector<int64_t> perm;
    int64_t unit = 0, next = 0;
    for (int64_t size : out.getShape())
      perm.push_back(size == 1 ? unit++ : order[next++]);
    Expr moved = at(rewriter, op, transpose.getInput()).reshape(shape).transpose(perm);
    rewriter.replaceOp(op, moved.value);
    return success();
  }
};

bool mergesOnly(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  auto groups = groupDims(from, to);
  return groups && llvm::all_of(*groups, [](const DimGroup &g) { return g.bCount() == 1; });
}

// The transpose of merged dimensions as the transpose of the dimensions before merging.
std::optional<SmallVector<int64_t>> permBeforeMerge(ReshapeOp merge, ArrayRef<int64_t> perm) {
  auto groups = groupDims(tensorTypeOf(merge.getInput()).getShape(), merge.getType().getShape());
  if (!groups || llvm::any_of(*groups, [](const DimGroup &g) { return g.bCount() != 1; }))
    return std::nullopt;
  SmallVector<int64_t> result;
  for (int64_t p : perm)
    for (int64_t d = (*groups)[p].aBegin; d < (*groups)[p].aEnd; ++d)
      result.push_back(d);
  return result;
}

// reshape(transpose(reshape(x))) where the first reshape merges dimensions and the last one splits them again.
struct SplitOfTransposeOfMerge : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<TransposeOp>();
    auto merge = transpose ? transpose.getInput().getDefiningOp<ReshapeOp>() : ReshapeOp();
    if (!merge)
      return failure();
    auto perm = permBeforeMerge(merge, transpose.getPerm());
    if (!perm)
      return failure();
    auto in = tensorTypeOf(merge.getInput());
    SmallVector<int64_t> shape;
    for (int64_t p : *perm)
      shape.push_back(in.getDimSize(p));
    if (!mergesOnly(shape, op.getType().getShape()))
      return failure();
    Expr moved = at(rewriter, op, merge.getInput()).transpose(*perm).reshape(op.getType().getShape());
    rewriter.replaceOp(op, moved.value);
    return success();
  }
};

// Brings a broadcast that a reshape merges (heads repeated for groups) below transposes.
struct TransposeOfMergedBroadcast : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto merge = op.getInput().getDefiningOp<ReshapeOp>();
    if (!merge || !merge.getInput().getDefiningOp<BroadcastOp>())
      return failure();
    auto perm = permBeforeMerge(merge, op.getPerm());
    if (!perm)
      return failure();
    Expr moved = at(rewriter, op, merge.getInput()).transpose(*perm).reshape(op.getType().getShape());
    rewriter.replaceOp(op, moved.value);
    return success();
  }
};

struct TransposeOfBroadcast : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto broadcast = op.getInput().getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return failure();
    SmallVector<int64_t> place = inverse(op.getPerm());
    SmallVector<std::pair<int64_t, int64_t>> moved; // result dimension, operand dimension
    for (auto [i, d] : llvm::enumerate(broadcast.getDims()))
      moved.push_back({place[d], int64_t(i)});
    llvm::sort(moved);
    SmallVector<int64_t> dims, perm;
    for (auto [d, i] : moved) {
      dims.push_back(d);
      perm.push_back(i);
    }
    Expr source = at(rewriter, op, broadcast.getInput()).transpose(perm);
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, op.getType(), source.value, dims);
    return success();
  }
};

struct ReshapeOfBroadcast : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto broadcast = op.getInput().getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return failure();
    auto mid = broadcast.getType(), out = op.getType();
    auto groups = groupDims(mid.getShape(), out.getShape());
    if (!groups)
      return failure();
    SmallVector<int64_t> shape, dims;
    for (const DimGroup &g : *groups) {
      bool any = false, all = true;
      for (int64_t d = g.aBegin; d < g.aEnd; ++d) {
        if (mid.getDimSize(d) == 1)
          continue;
        bool mapped = llvm::is_contained(broadcast.getDims(), d);
        any |= mapped;
        all &= mapped;
      }
      if (any && !all)
        return failure();
      if (!any)
        continue;
      for (int64_t d = g.bBegin; d < g.bEnd; ++d) {
        shape.push_back(out.getDimSize(d));
        dims.push_back(d);
      }
    }
    Expr source = at(rewriter, op, broadcast.getInput()).reshape(shape);
    rewriter.replaceOpWithNewOp<BroadcastOp>(op, out, source.value, dims);
    return success();
  }
};

// What has to be done to an operand so that the op can run before the transpose.
enum class Operand { Transposed, Splat, Movable, Other };

Operand kindOf(Value v, ArrayRef<int64_t> perm) {
  if (auto transpose = v.getDefiningOp<TransposeOp>())
    return transpose.getPerm() == perm ? Operand::Transposed : Operand::Other;
  if (DenseElementsAttr dense = constantOf(v))
    return dense.isSplat() ? Operand::Splat : Operand::Movable;
  return v.getDefiningOp<BroadcastOp>() ? Operand::Movable : Operand::Other;
}

// The operand of an op that is to run before its operands' transposes.
Value before(PatternRewriter &rewriter, Location loc, Value v, ArrayRef<int64_t> perm, ArrayRef<int64_t> shape) {
  Operand kind = kindOf(v, perm);
  if (kind == Operand::Transposed)
    return v.getDefiningOp<TransposeOp>().getInput();
  if (kind == Operand::Splat) {
    auto type = RankedTensorType::get(shape, tensorTypeOf(v).getElementType());
    return arith::ConstantOp::create(rewriter, loc, constantOf(v).resizeSplat(type));
  }
  return Expr(rewriter, loc, v).transpose(inverse(perm)).value;
}

struct SinkTranspose : RewritePattern {
  explicit SinkTranspose(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    bool pointwise = op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1;
    auto rotary = dyn_cast<RotaryOp>(op);
    if (!pointwise && !rotary)
      return failure();
    TransposeOp first;
    for (Value v : op->getOperands())
      if (auto transpose = v.getDefiningOp<TransposeOp>()) {
        first = transpose;
        break;
      }
    if (!first)
      return failure();
    SmallVector<int64_t> perm(first.getPerm());
    if (rotary && (perm.back() != int64_t(perm.size()) - 1 || kindOf(rotary.getX(), perm) != Operand::Transposed))
      return failure();
    for (Value v : op->getOperands()) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (!type || type.getRank() != int64_t(perm.size()) || kindOf(v, perm) == Operand::Other)
        return failure();
    }
    ArrayRef<int64_t> shape = tensorTypeOf(first.getInput()).getShape();
    SmallVector<Value> operands;
    for (Value v : op->getOperands())
      operands.push_back(before(rewriter, op->getLoc(), v, perm, shape));
    auto type = tensorTypeOf(op->getResult(0));
    OperationState state(op->getLoc(), op->getName(), operands, {RankedTensorType::get(shape, type.getElementType())},
                         op->getAttrs());
    Operation *moved = rewriter.create(state);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, type, moved->getResult(0), perm);
    return success();
  }
};

struct ConcatOfTransposes : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    auto first = op.getInputs().front().getDefiningOp<TransposeOp>();
    if (!first)
      return failure();
    SmallVector<Value> inputs;
    for (Value v : op.getInputs()) {
      auto transpose = v.getDefiningOp<TransposeOp>();
      if (!transpose || transpose.getPerm() != first.getPerm())
        return failure();
      inputs.push_back(transpose.getInput());
    }
    SmallVector<int64_t> perm(first.getPerm()), shape(perm.size());
    for (auto [i, p] : llvm::enumerate(perm))
      shape[p] = op.getType().getDimSize(i);
    auto type = RankedTensorType::get(shape, op.getType().getElementType());
    Value joined = ConcatOp::create(rewriter, op.getLoc(), type, inputs, perm[op.getDim()]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), joined, perm);
    return success();
  }
};

// A reduction drops dimensions wherever they are; those that are left keep their order.
struct ReduceOfTranspose : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    SmallVector<int64_t> dims, kept;
    for (auto [i, p] : llvm::enumerate(transpose.getPerm()))
      (llvm::is_contained(op.getDims(), int64_t(i)) ? dims : kept).push_back(p);
    llvm::sort(dims);
    SmallVector<int64_t> perm, sorted(kept);
    llvm::sort(sorted);
    for (int64_t p : kept)
      perm.push_back(llvm::find(sorted, p) - sorted.begin());
    Expr reduced = at(rewriter, op, transpose.getInput()).reduce(op.getKind(), dims).transpose(perm);
    rewriter.replaceOp(op, reduced.value);
    return success();
  }
};

struct PadOfTranspose : OpRewritePattern<PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PadOp op, PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<TransposeOp>();
    if (!transpose)
      return failure();
    auto perm = transpose.getPerm();
    SmallVector<int64_t> low(perm.size()), strides(perm.size()), shape(perm.size());
    for (auto [i, p] : llvm::enumerate(perm)) {
      low[p] = op.getLow()[i];
      strides[p] = op.getStrides()[i];
      shape[p] = op.getType().getDimSize(i);
    }
    auto type = RankedTensorType::get(shape, op.getType().getElementType());
    Value padded =
        PadOp::create(rewriter, op.getLoc(), type, transpose.getInput(), low, strides, op.getValue());
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), padded, perm);
    return success();
  }
};

// A transpose of a matmul operand's last two dimensions becomes a flag.
struct MatMulOfTranspose : OpRewritePattern<MatMulOp> {
  using OpRewritePattern::OpRewritePattern;
  static bool swapsLastTwo(TransposeOp transpose) {
    auto perm = transpose.getPerm();
    int64_t rank = perm.size();
    for (int64_t i = 0; i + 2 < rank; ++i)
      if (perm[i] != i)
        return false;
    return rank >= 2 && perm[rank - 2] == rank - 1;
  }
  LogicalResult matchAndRewrite(MatMulOp op, PatternRewriter &rewriter) const override {
    bool changed = false;
    bool ta = op.getTransposeA(), tb = op.getTransposeB();
    Value a = op.getA(), b = op.getB();
    if (auto t = a.getDefiningOp<TransposeOp>(); t && swapsLastTwo(t)) {
      a = t.getInput();
      ta = !ta;
      changed = true;
    }
    if (auto t = b.getDefiningOp<TransposeOp>(); t && swapsLastTwo(t)) {
      b = t.getInput();
      tb = !tb;
      changed = true;
    }
    if (!changed)
      return failure();
    rewriter.replaceOpWithNewOp<MatMulOp>(op, op.getType(), a, b, ta, tb);
    return success();
  }
};

struct SimplifyLayout : impl::SimplifyLayoutBase<SimplifyLayout> {
  using SimplifyLayoutBase::SimplifyLayoutBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    addLayoutPatterns(patterns);
    addConstantLayoutPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

void addLayoutPatterns(RewritePatternSet &patterns) {
  patterns.add<UnitTranspose, SliceOfTranspose, SliceOfReshape, UnitReshapeOfTranspose, SplitOfTransposeOfMerge,
               TransposeOfMergedBroadcast, TransposeOfBroadcast, ReshapeOfBroadcast, SinkTranspose, ConcatOfTransposes,
               ReduceOfTranspose, PadOfTranspose, MatMulOfTranspose>(patterns.getContext());
}

} // namespace msamp::raise
