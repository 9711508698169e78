// Finds rotary position embeddings.
#include "ir/Msamp/Expr.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/raise/Match.h"
#include "passes/raise/Passes.h"

using namespace mlir;

namespace msamp::raise {

#define GEN_PASS_DEF_RAISEROTARY
#include "passes/raise/Passes.h.inc"

namespace {

// Skips reshapes that keep the last dimension: halves are taken before or after heads are split off.
Value skipRowReshapes(Value v) {
  while (auto reshape = v.getDefiningOp<ReshapeOp>()) {
    auto in = tensorTypeOf(reshape.getInput());
    if (in.getRank() == 0 || in.getShape().back() != reshape.getType().getShape().back())
      break;
    v = reshape.getInput();
  }
  return v;
}

// x where `v` is the half of the last dimension of x that begins at `start`.
Value halfOf(Value v, bool second) {
  auto slice = skipRowReshapes(v).getDefiningOp<SliceOp>();
  if (!slice)
    return {};
  auto in = tensorTypeOf(slice.getInput()), out = slice.getType();
  int64_t last = in.getRank() - 1, half = in.getDimSize(last) / 2;
  if (in.getDimSize(last) != 2 * half)
    return {};
  for (int64_t d = 0; d <= last; ++d) {
    int64_t size = d == last ? half : in.getDimSize(d), start = d == last && second ? half : 0;
    if (out.getDimSize(d) != size || slice.getStarts()[d] != start || slice.getStrides()[d] != 1)
      return {};
  }
  return skipRowReshapes(slice.getInput());
}

// x where `v` is (-second half of x, first half of x).
Value rotatedHalves(Value v) {
  auto concat = v.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 || int64_t(concat.getDim()) != concat.getType().getRank() - 1)
    return {};
  auto negated = scaled(skipRowReshapes(concat.getInputs()[0]));
  if (!negated || negated->second != -1.0)
    return {};
  Value x = halfOf(negated->first, true);
  return x && halfOf(concat.getInputs()[1], false) == x ? x : Value();
}

struct FormRotary : OpRewritePattern<arith::AddFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::AddFOp op, PatternRewriter &rewriter) const override {
    for (auto [straight, turned] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto cosine = binary<arith::MulFOp>(straight), sine = binary<arith::MulFOp>(turned);
      if (!cosine || !sine)
        continue;
      for (auto [rotated, sin] : {std::pair(sine->first, sine->second), std::pair(sine->second, sine->first)}) {
        Value x = rotatedHalves(rotated);
        if (!x)
          continue;
        for (auto [whole, cos] : {std::pair(cosine->first, cosine->second), std::pair(cosine->second, cosine->first)}) {
          if (skipRowReshapes(whole) != x)
            continue;
          rewriter.replaceOpWithNewOp<RotaryOp>(op, op.getType(), whole, cos, sin, false);
          return success();
        }
      }
    }
    return failure();
  }
};

struct RaiseRotary : impl::RaiseRotaryBase<RaiseRotary> {
  using RaiseRotaryBase::RaiseRotaryBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FormRotary>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace msamp::raise
