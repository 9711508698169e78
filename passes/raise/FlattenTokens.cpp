// Moves reshapes that only split or merge leading dimensions out of chains of pointwise ops, norms and linear layers.
#include "ir/Msamp/Expr.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/raise/Layout.h"
#include "passes/raise/Match.h"
#include "passes/raise/Passes.h"

using namespace mlir;

namespace msamp::raise {

#define GEN_PASS_DEF_FLATTENTOKENS
#include "passes/raise/Passes.h.inc"

namespace {

RankedTensorType flattened(RankedTensorType type) {
  int64_t width = type.getShape().back();
  return RankedTensorType::get({width ? type.getNumElements() / width : 0, width}, type.getElementType());
}

// Whether the value comes from, or goes to, its rank-2 form.
bool meetsFlat(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  if (!type || type.getRank() < 3)
    return false;
  auto flat = flattened(type);
  if (auto reshape = v.getDefiningOp<ReshapeOp>(); reshape && reshape.getInput().getType() == flat)
    return true;
  return llvm::any_of(v.getUsers(),
                      [&](Operation *user) { return isa<ReshapeOp>(user) && user->getResult(0).getType() == flat; });
}

struct FlattenRows : RewritePattern {
  explicit FlattenRows(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    bool pointwise = op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1;
    if (!pointwise && !isa<LayerNormOp, RmsNormOp, BatchNormOp, SoftmaxOp>(op))
      return failure();
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || type.getRank() < 3)
      return failure();
    bool meets = meetsFlat(op->getResult(0)) || llvm::any_of(op->getOperands(), [](Value v) {
                   auto reshape = v.getDefiningOp<ReshapeOp>();
                   return reshape && tensorTypeOf(v).getRank() >= 3 &&
                          reshape.getInput().getType() == flattened(tensorTypeOf(v));
                 });
    if (!meets)
      return failure();
    auto flat = flattened(type);
    SmallVector<Value> operands;
    for (Value v : op->getOperands()) {
      auto t = dyn_cast<RankedTensorType>(v.getType());
      if (!t)
        return failure();
      if (t.getShape() != type.getShape()) {
        operands.push_back(v); // scale and shift of a norm
        continue;
      }
      if (DenseElementsAttr dense = constantOf(v)) {
        auto small = RankedTensorType::get(flat.getShape(), t.getElementType());
        operands.push_back(arith::ConstantOp::create(rewriter, op->getLoc(), dense.reshape(small)));
      } else {
        operands.push_back(Expr(rewriter, op->getLoc(), v).reshape(flat.getShape()));
      }
    }
    SmallVector<Type> types{flat};
    for (Value v : op->getResults().drop_front()) { // statistics of rows, or of columns
      auto statistic = tensorTypeOf(v);
      types.push_back(isa<BatchNormOp>(op) ? statistic
                                           : RankedTensorType::get({flat.getDimSize(0)}, statistic.getElementType()));
    }
    OperationState state(op->getLoc(), op->getName(), operands, types, op->getAttrs());
    Operation *made = rewriter.create(state);
    SmallVector<Value> results;
    for (auto [from, to] : llvm::zip(made->getResults(), op->getResults()))
      results.push_back(Expr(rewriter, op->getLoc(), from).reshape(tensorTypeOf(to).getShape()));
    rewriter.replaceOp(op, results);
    return success();
  }
};

// Rows are looked up by a flat list of indices.
struct FlattenGather : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op, PatternRewriter &rewriter) const override {
    auto indices = tensorTypeOf(op.getIndices());
    if (op.getAxis() != 0 || tensorTypeOf(op.getTable()).getRank() != 2 || indices.getRank() < 2)
      return failure();
    if (!meetsFlat(op.getResult()))
      return failure();
    Expr list = Expr(rewriter, op.getLoc(), op.getIndices()).reshape({indices.getNumElements()});
    Value rows = GatherOp::create(rewriter, op.getLoc(), flattened(op.getType()), op.getTable(), list.value, 0);
    rewriter.replaceOp(op, Expr(rewriter, op.getLoc(), rows).reshape(op.getType().getShape()).value);
    return success();
  }
};

struct FlattenTokens : impl::FlattenTokensBase<FlattenTokens> {
  using FlattenTokensBase::FlattenTokensBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FlattenRows, FlattenGather>(&getContext());
    addLayoutPatterns(patterns);
    GreedyRewriteConfig config;
    config.setMaxIterations(GreedyRewriteConfig::kNoLimit);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};

} // namespace
} // namespace msamp::raise
