// Finds layer_norm, rms_norm and batch_norm in their decomposed forms.
#include "ir/Msamp/Expr.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/raise/Match.h"
#include "passes/raise/Passes.h"

using namespace mlir;

namespace msamp::raise {

#define GEN_PASS_DEF_RAISENORMS
#include "passes/raise/Passes.h.inc"

namespace {

// The tensor whose mean over the last dimension `v` is; null if it is none.
Value meanOfLastDim(Value v) {
  v = skipUnits(v);
  auto factor = scaled(v);
  if (!factor)
    return {};
  auto sum = skipUnits(factor->first).getDefiningOp<ReduceOp>();
  if (!sum || sum.getKind() != ReduceKind::Sum)
    return {};
  auto in = tensorTypeOf(sum.getInput());
  if (sum.getDims().size() != 1 || sum.getDims().front() != in.getRank() - 1)
    return {};
  return near(factor->second * double(in.getShape().back()), 1.0) ? sum.getInput() : Value();
}

// x where v = x^2.
Value squared(Value v) {
  if (auto mul = binary<arith::MulFOp>(v); mul && mul->first == mul->second)
    return mul->first;
  if (auto pow = binary<math::PowFOp>(v))
    if (auto exponent = splatOf(pow->second); exponent && *exponent == 2.0)
      return pow->first;
  return {};
}

struct Deviation {
  Value x;
  double eps;
};

// mean(x^2) + eps
std::optional<Deviation> meanSquarePlusEps(Value v) {
  auto sum = shifted(skipUnits(v));
  if (!sum)
    return std::nullopt;
  Value mean = meanOfLastDim(sum->first);
  Value x = mean ? squared(mean) : Value();
  if (!x)
    return std::nullopt;
  return Deviation{x, sum->second};
}

// sqrt(mean(x^2) + eps)
std::optional<Deviation> rootMeanSquare(Value v) {
  v = skipUnits(v);
  if (auto root = v.getDefiningOp<math::SqrtOp>())
    return meanSquarePlusEps(root.getOperand());
  if (auto pow = binary<math::PowFOp>(v))
    if (auto exponent = splatOf(pow->second); exponent && *exponent == 0.5)
      return meanSquarePlusEps(pow->first);
  return std::nullopt;
}

// 1 / sqrt(mean(x^2) + eps)
std::optional<Deviation> reciprocalRoot(Value v) {
  v = skipUnits(v);
  if (auto root = v.getDefiningOp<math::RsqrtOp>())
    return meanSquarePlusEps(root.getOperand());
  if (auto pow = binary<math::PowFOp>(v)) {
    auto exponent = splatOf(pow->second);
    if (exponent && *exponent == -0.5)
      return meanSquarePlusEps(pow->first);
    if (exponent && *exponent == -1.0)
      return rootMeanSquare(pow->first);
  }
  if (auto div = binary<arith::DivFOp>(v))
    if (auto one = splatOf(div->first); one && *one == 1.0)
      return rootMeanSquare(div->second);
  return std::nullopt;
}

// x where v = x - mean(x).
Value centred(Value v) {
  auto sub = binary<arith::SubFOp>(v);
  if (!sub)
    return {};
  Value mean = repeatedAlongLastDim(sub->second);
  return mean && meanOfLastDim(mean) == sub->first ? sub->first : Value();
}

RankedTensorType rowType(RankedTensorType x, Type element) {
  return RankedTensorType::get(x.getShape().drop_back(), element);
}

template <typename OpT>
struct FormNorm : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  static std::optional<Deviation> match(Value x, Value factor) {
    Value row = repeatedAlongLastDim(factor);
    if (!row)
      return std::nullopt;
    auto found = std::is_same_v<OpT, arith::DivFOp> ? rootMeanSquare(row) : reciprocalRoot(row);
    return found && found->x == x ? found : std::nullopt;
  }
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    auto found = match(op.getLhs(), op.getRhs());
    if (!found && std::is_same_v<OpT, arith::MulFOp>)
      found = match(op.getRhs(), op.getLhs());
    if (!found)
      return failure();
    auto type = cast<RankedTensorType>(op.getType());
    auto rows = rowType(type, rewriter.getF32Type());
    auto eps = rewriter.getF64FloatAttr(found->eps);
    if (Value x = centred(found->x)) {
      auto norm = LayerNormOp::create(rewriter, op.getLoc(), type, rows, rows, x, Value(), Value(), eps);
      rewriter.replaceOp(op, norm.getY());
    } else {
      auto norm = RmsNormOp::create(rewriter, op.getLoc(), type, rows, found->x, Value(), eps);
      rewriter.replaceOp(op, norm.getY());
    }
    return success();
  }
};

// A norm's result times a vector of the last dimension.
struct AbsorbScale : OpRewritePattern<arith::MulFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::MulFOp op, PatternRewriter &rewriter) const override {
    for (auto [y, factor] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      Operation *norm = y.getDefiningOp();
      Value scale = vectorOfLastDim(factor);
      if (!norm || !scale || !y.hasOneUse() || splatOf(factor))
        continue;
      auto type = cast<RankedTensorType>(op.getType());
      auto layer = dyn_cast<LayerNormOp>(norm);
      if (layer && y == layer.getY() && !layer.getScale() && !layer.getShift()) {
        auto made = LayerNormOp::create(rewriter, op.getLoc(), type, layer.getMean().getType(),
                                        layer.getRstd().getType(), layer.getX(), scale, Value(), layer.getEpsAttr());
        rewriter.replaceAllUsesWith(layer.getMean(), made.getMean());
        rewriter.replaceAllUsesWith(layer.getRstd(), made.getRstd());
        rewriter.replaceOp(op, made.getY());
        return success();
      }
      auto rms = dyn_cast<RmsNormOp>(norm);
      if (rms && y == rms.getY() && !rms.getScale()) {
        auto made = RmsNormOp::create(rewriter, op.getLoc(), type, rms.getRstd().getType(), rms.getX(), scale,
                                      rms.getEpsAttr());
        rewriter.replaceAllUsesWith(rms.getRstd(), made.getRstd());
        rewriter.replaceOp(op, made.getY());
        return success();
      }
    }
    return failure();
  }
};

// A layer_norm's result plus a vector of the last dimension.
struct AbsorbShift : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddFOp op, PatternRewriter &rewriter) const override {
    for (auto [y, term] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto norm = y.getDefiningOp<LayerNormOp>();
      Value shift = vectorOfLastDim(term);
      if (!norm || y != norm.getY() || norm.getShift() || !norm.getScale() || !shift || !y.hasOneUse())
        continue;
      auto made = LayerNormOp::create(rewriter, op.getLoc(), op.getType(), norm.getMean().getType(),
                                      norm.getRstd().getType(), norm.getX(), norm.getScale(), shift, norm.getEpsAttr());
      rewriter.replaceAllUsesWith(norm.getMean(), made.getMean());
      rewriter.replaceAllUsesWith(norm.getRstd(), made.getRstd());
      rewriter.replaceOp(op, made.getY());
      return success();
    }
    return failure();
  }
};

// The tensor whose mean over all dimensions but the last the vector `v` is, whatever those are split into; null if it
// is none.
Value meanOfLeadingDims(Value v, int64_t width) {
  auto factor = scaled(skipUnits(v));
  auto sum = factor ? skipUnits(factor->first).getDefiningOp<ReduceOp>() : ReduceOp();
  if (!sum || sum.getKind() != ReduceKind::Sum)
    return {};
  auto in = tensorTypeOf(sum.getInput());
  const int64_t rank = in.getRank(), last = in.getShape().back();
  if (rank < 2 || last != width || static_cast<int64_t>(sum.getDims().size()) != rank - 1 ||
      sum.getDims().back() != rank - 2)
    return {};
  const double rows = static_cast<double>(in.getNumElements()) / static_cast<double>(last);
  return near(factor->second * rows, 1.0) ? sum.getInput() : Value();
}

bool dependsOn(Value v, ArrayRef<Value> sources) {
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  if (failed(getBackwardSlice(v, &slice, options)))
    return true;
  return llvm::any_of(sources, [&](Value source) { return slice.contains(source.getDefiningOp()); });
}

// (x - mean) * (scale / sqrt(variance + eps)) + shift, with a value of each for each column.
struct FormBatchNorm : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddFOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<RankedTensorType>(op.getType());
    if (!type || type.getRank() < 2 || type.getNumElements() == 0)
      return failure();
    const int64_t width = type.getShape().back();
    Value shift = vectorOfLastDim(op.getRhs());
    auto product = binary<arith::MulFOp>(op.getLhs());
    if (!shift || !product)
      return failure();
    Value factor = vectorOfLastDim(product->second);
    auto centredX = binary<arith::SubFOp>(product->first);
    auto quotient = factor ? binary<arith::DivFOp>(skipUnits(factor)) : std::nullopt;
    if (!centredX || !quotient)
      return failure();
    auto root = skipUnits(quotient->second).getDefiningOp<math::SqrtOp>();
    auto variancePlusEps = root ? shifted(skipUnits(root.getOperand())) : std::nullopt;
    Value mean = vectorOfLastDim(centredX->second), x = centredX->first;
    if (!variancePlusEps || !mean)
      return failure();
    mean = skipUnits(mean);
    Value variance = skipUnits(variancePlusEps->first);
    Value source = meanOfLeadingDims(mean, width), squares = meanOfLeadingDims(variance, width);
    if (!source || throughReshapes(source) != throughReshapes(x) || !squares ||
        squared(throughReshapes(squares)) != product->first)
      return failure();
    // Scale and shift stand before the op, so they can't be made from its statistics.
    if (!type.getElementType().isF32() || dependsOn(quotient->first, {mean, variance}) ||
        dependsOn(shift, {mean, variance}))
      return failure();
    auto vector = RankedTensorType::get({width}, rewriter.getF32Type());
    auto flat = [&](Value v) { return Expr(rewriter, op.getLoc(), v).reshape({width}).value; };
    Value scale = flat(quotient->first), shiftVector = flat(shift);
    auto norm = BatchNormOp::create(rewriter, op.getLoc(), type, vector, vector, x, scale, shiftVector,
                                    rewriter.getF64FloatAttr(variancePlusEps->second));
    for (auto [from, to] : {std::pair(mean, norm.getMean()), std::pair(variance, norm.getVariance())})
      rewriter.replaceAllUsesWith(from, Expr(rewriter, op.getLoc(), to).reshape(tensorTypeOf(from).getShape()).value);
    rewriter.replaceOp(op, norm.getY());
    return success();
  }
};

struct RaiseNorms : impl::RaiseNormsBase<RaiseNorms> {
  using RaiseNormsBase::RaiseNormsBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FormNorm<arith::MulFOp>, FormNorm<arith::DivFOp>, AbsorbScale, AbsorbShift, FormBatchNorm>(
        &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    // A batch_norm stands where its result was; running statistics moved on before that.
    SetVector<Block *> blocks;
    getOperation()->walk([&](BatchNormOp norm) { blocks.insert(norm->getBlock()); });
    if (!llvm::all_of(blocks, [](Block *block) { return sortTopologically(block); }))
      signalPassFailure();
  }
};

} // namespace
} // namespace msamp::raise
