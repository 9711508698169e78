// Finds attention in matmul, scale, masks, softmax, matmul.
#include "mlir/IR/Remarks.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/raise/AttentionBias.h"
#include "passes/raise/Layout.h"
#include "passes/raise/Match.h"
#include "passes/raise/Passes.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace msamp::raise {

#define GEN_PASS_DEF_RAISEATTENTION
#include "passes/raise/Passes.h.inc"

namespace {

bool sameLastTwo(RankedTensorType a, RankedTensorType b) {
  return a.getRank() >= 2 && b.getRank() >= 2 && a.getShape().take_back(2) == b.getShape().take_back(2);
}

// Skips reshapes that merge or split leading dimensions only.
Value skipLeadingReshapes(Value v) {
  while (auto reshape = v.getDefiningOp<ReshapeOp>()) {
    if (!sameLastTwo(tensorTypeOf(reshape.getInput()), reshape.getType()))
      break;
    v = reshape.getInput();
  }
  return v;
}

// The softmax behind a guard that replaces NaN by 0.
SoftmaxOp softmaxOf(Value v) {
  for (;;) {
    v = skipLeadingReshapes(v);
    if (auto softmax = v.getDefiningOp<SoftmaxOp>())
      return softmax;
    auto select = v.getDefiningOp<arith::SelectOp>();
    auto compare = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : arith::CmpFOp();
    if (!compare || compare.getLhs() != compare.getRhs())
      return {};
    using P = arith::CmpFPredicate;
    bool isNaN = compare.getPredicate() == P::UNO || compare.getPredicate() == P::UNE;
    bool isNumber = compare.getPredicate() == P::ORD || compare.getPredicate() == P::OEQ;
    Value kept = isNaN ? select.getFalseValue() : select.getTrueValue();
    Value other = isNaN ? select.getTrueValue() : select.getFalseValue();
    if ((!isNaN && !isNumber) || kept != compare.getLhs() || splatOf(other) != std::optional(0.0))
      return {};
    v = kept;
  }
}

// `v` without constant factors, which multiply `scale`; looks through reshapes and transposes.
Value withoutScale(OpBuilder &builder, Value v, double &scale, int depth = 0) {
  if (depth > 8)
    return v;
  if (auto factor = scaled(v)) {
    scale *= factor->second;
    return withoutScale(builder, factor->first, scale, depth + 1);
  }
  Operation *op = v.getDefiningOp();
  if (!op || !isa<ReshapeOp, TransposeOp>(op))
    return v;
  Value inner = withoutScale(builder, op->getOperand(0), scale, depth + 1);
  if (inner == op->getOperand(0))
    return v;
  Expr source(builder, op->getLoc(), inner);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return source.transpose(transpose.getPerm()).value;
  return source.reshape(tensorTypeOf(v).getShape()).value;
}

// Scores as the product of q and k, with what scales them and what is added.
struct Scores {
  MatMulOp product;
  double scale = 1.0;
  SmallVector<ScoreTerm> terms;

  bool read(Value v, double outer = 1.0, int depth = 0) {
    if (depth > 16)
      return false;
    v = skipLeadingReshapes(v);
    if (auto matmul = v.getDefiningOp<MatMulOp>()) {
      product = matmul;
      scale = outer;
      return tensorTypeOf(v).getRank() >= 3;
    }
    if (auto factor = scaled(v))
      return read(factor->first, outer * factor->second, depth + 1);
    if (auto add = binary<arith::AddFOp>(v)) {
      for (auto [scores, term] : {std::pair(add->first, add->second), std::pair(add->second, add->first)}) {
        size_t before = terms.size();
        terms.push_back({term, std::nullopt, true, outer});
        if (!splatOf(scores) && read(scores, outer, depth + 1))
          return true;
        terms.resize(before);
      }
      return false;
    }
    if (auto select = v.getDefiningOp<arith::SelectOp>()) {
      bool keep = true; // scores where the condition holds
      auto masked = splatOf(select.getFalseValue());
      if (!masked) {
        masked = splatOf(select.getTrueValue());
        keep = false;
      }
      if (!masked || *masked * outer > -1e4)
        return false;
      terms.push_back({select.getCondition(), *masked, keep, outer});
      return read(keep ? select.getTrueValue() : select.getFalseValue(), outer, depth + 1);
    }
    // A lower bound on masked scores, so that masks do not add up to -inf.
    if (auto bounded = binary<arith::MaximumFOp>(v))
      for (auto [scores, bound] :
           {std::pair(bounded->first, bounded->second), std::pair(bounded->second, bounded->first)})
        if (auto c = splatOf(bound); c && *c < -1e30)
          return read(scores, outer, depth + 1);
    return false;
  }
};

// Batch and heads: from a tensor of rank 4, or where one was merged.
std::optional<std::pair<int64_t, int64_t>> batchAndHeads(ArrayRef<Value> candidates, int64_t merged) {
  for (Value v : candidates)
    for (int depth = 0; v && depth < 6; ++depth) {
      auto type = tensorTypeOf(v);
      if (type.getRank() == 4 && type.getDimSize(0) * type.getDimSize(1) == merged)
        return std::pair(type.getDimSize(0), type.getDimSize(1));
      Operation *op = v.getDefiningOp();
      bool follows = op && isa<ReshapeOp, arith::MulFOp, arith::DivFOp, arith::AddFOp, TransposeOp>(op);
      if (isa_and_nonnull<TransposeOp>(op) && type.getRank() != 3)
        follows = false;
      v = follows ? op->getOperand(0) : Value();
    }
  return std::nullopt;
}

struct FormAttention : OpRewritePattern<MatMulOp> {
  FormAttention(MLIRContext *context, BiasCache &cache, llvm::SmallPtrSetImpl<Operation *> &reported)
      : OpRewritePattern(context), cache(cache), reported(reported) {}
  BiasCache &cache;
  llvm::SmallPtrSetImpl<Operation *> &reported; // a pattern may try an op several times
  LogicalResult matchAndRewrite(MatMulOp op, PatternRewriter &rewriter) const override {
    auto type = op.getType();
    if (op.getTransposeA() || (type.getRank() != 3 && type.getRank() != 4))
      return failure();
    SoftmaxOp softmax = softmaxOf(op.getA());
    Scores scores;
    if (!softmax || !scores.read(softmax.getX()))
      return failure();
    MatMulOp product = scores.product;
    auto scoreType = product.getType(), weights = tensorTypeOf(op.getA());
    int64_t rank = scoreType.getRank();
    if (!sameLastTwo(scoreType, weights))
      return failure();
    int64_t T = weights.getShape()[weights.getRank() - 2], S = weights.getShape().back();
    int64_t merged = scoreType.getNumElements() / (T * S);
    SmallVector<Value> candidates{softmax.getX(), product.getResult(), op.getResult(),
                                  product.getA(), product.getB(),      op.getB()};
    auto extents = rank == 4 ? std::pair(scoreType.getDimSize(0), scoreType.getDimSize(1))
                             : batchAndHeads(candidates, merged).value_or(std::pair(merged, int64_t(1)));
    auto [B, H] = extents;
    if (B * H != merged)
      return failure();
    for (const ScoreTerm &term : scores.terms)
      if (dependsOnTrained(term.value)) {
        if (!reported.insert(op).second)
          return failure();
        remark::missed(op.getLoc(), remark::RemarkOpts::name("attention").category("raise"))
            << "attention stays decomposed: its scores have a trained bias, to which attention gives no gradient";
        return failure();
      }
    Location loc = op.getLoc();
    auto bias = ScoreBias::read(scores.terms, {B, H, T, S}, cache);
    if (!bias)
      return failure();

    double scale = scores.scale;
    const SmallVector<int64_t> keysFirst{0, 2, 1, 3}, keysLast{0, 3, 1, 2};
    auto heads = [&](Value v, bool transposed) {
      Value unscaled = withoutScale(rewriter, v, scale);
      auto last = tensorTypeOf(unscaled).getShape().take_back(2);
      Expr four = Expr(rewriter, loc, unscaled).reshape({B, H, last[0], last[1]});
      return four.transpose(transposed ? keysLast : keysFirst);
    };
    Expr q = heads(product.getA(), product.getTransposeA());
    Expr k = heads(product.getB(), !product.getTransposeB());
    auto ofV = tensorTypeOf(op.getB()).getShape().take_back(2);
    Expr v = Expr(rewriter, loc, op.getB()).reshape({B, H, ofV[0], ofV[1]});
    v = v.transpose(op.getTransposeB() ? keysLast : keysFirst);

    Value biasValue = bias->build(rewriter, loc);
    auto element = type.getElementType();
    auto outType = RankedTensorType::get({B, T, H, type.getShape().back()}, element);
    auto lseType = RankedTensorType::get({B, H, T}, rewriter.getF32Type());
    auto attention =
        AttentionOp::create(rewriter, loc, outType, lseType, q.value, k.value, v.value, biasValue,
                            rewriter.getF64FloatAttr(scale), bias->causal ? rewriter.getUnitAttr() : UnitAttr());
    Expr out = Expr(rewriter, loc, attention.getO()).transpose({0, 2, 1, 3}).reshape(type.getShape());
    rewriter.replaceOp(op, out.value);
    return success();
  }
};

// A constant mask of an attention op becomes `causal` or shrinks.
struct SimplifyBias : OpRewritePattern<AttentionOp> {
  SimplifyBias(MLIRContext *context, BiasCache &cache) : OpRewritePattern(context), cache(cache) {}
  BiasCache &cache;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    if (!op.getBias() || dependsOnTrained(op.getBias()))
      return failure();
    auto q = tensorTypeOf(op.getQ());
    ScoreShape scores{q.getDimSize(0), q.getDimSize(2), q.getDimSize(1), tensorTypeOf(op.getK()).getDimSize(1)};
    auto bias = ScoreBias::read(ScoreTerm{op.getBias(), std::nullopt}, scores, cache);
    if (!bias)
      return failure();
    bool causal = op.getCausal() || bias->causal;
    auto shape = bias->shape();
    if (causal == op.getCausal() && ArrayRef<int64_t>(shape) == tensorTypeOf(op.getBias()).getShape())
      return failure();
    auto made = AttentionOp::create(rewriter, op.getLoc(), op.getO().getType(), op.getLse().getType(), op.getQ(),
                                    op.getK(), op.getV(), bias->build(rewriter, op.getLoc()), op.getScaleAttr(),
                                    causal ? rewriter.getUnitAttr() : UnitAttr());
    rewriter.replaceOp(op, made->getResults());
    return success();
  }
};

// [B, S, G, D] where `v` [B, S, H, D] repeats each group's head H / G times; null if it does not.
Value groupsOf(OpBuilder &builder, Value v) {
  if (auto merge = v.getDefiningOp<ReshapeOp>()) {
    auto broadcast = merge.getInput().getDefiningOp<BroadcastOp>();
    if (!broadcast || broadcast.getType().getRank() != 5)
      return {};
    auto wide = broadcast.getType().getShape();
    auto out = merge.getType().getShape();
    if (out.size() != 4 || wide[0] != out[0] || wide[1] != out[1] || wide[4] != out[3] || wide[2] * wide[3] != out[2])
      return {};
    if (broadcast.getDims() != ArrayRef<int64_t>({0, 1, 2, 4}))
      return {};
    return broadcast.getInput();
  }
  auto broadcast = v.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getType().getRank() != 4 || broadcast.getDims() != ArrayRef<int64_t>({0, 1, 3}))
    return {};
  auto shape = broadcast.getType().getShape();
  return Expr(builder, v.getLoc(), broadcast.getInput()).reshape({shape[0], shape[1], 1, shape[3]}).value;
}

struct GroupHeads : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op, PatternRewriter &rewriter) const override {
    Value k = groupsOf(rewriter, op.getK()), v = k ? groupsOf(rewriter, op.getV()) : Value();
    if (!k || !v || tensorTypeOf(k).getDimSize(2) != tensorTypeOf(v).getDimSize(2))
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getKMutable().assign(k);
      op.getVMutable().assign(v);
    });
    return success();
  }
};

struct RaiseAttention : impl::RaiseAttentionBase<RaiseAttention> {
  using RaiseAttentionBase::RaiseAttentionBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    BiasCache cache;
    llvm::SmallPtrSet<Operation *, 8> reported;
    patterns.add<FormAttention>(&getContext(), cache, reported);
    patterns.add<SimplifyBias>(&getContext(), cache);
    patterns.add<GroupHeads>(&getContext());
    addLayoutPatterns(patterns);
    addConstantLayoutPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError() << "attention patterns did not come to an end";
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace msamp::raise
