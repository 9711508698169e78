// Quantisations that a GEMM does while it stores its result.
#include "passes/fuse/Passes.h"

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_QUANTIZEINGEMMS
#include "passes/fuse/Passes.h.inc"
namespace {

RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

bool isAll(ReduceOp reduce) {
  return reduce.getKind() == ReduceKind::Max && reduce.getResult().getType().getRank() == 0;
}

void quantise(ScaledMatMulOp op) {
  Value product = op.getResult();
  // A library that adds to an FP8 result reads the addend in 16 bits; sums over chunks are FP32.
  if (op.getScaleOut() || op.getAddend() || !typeOf(product).getElementType().isF32() ||
      typeOf(op.getScaleA()).getRank() || typeOf(op.getScaleB()).getRank())
    return;
  QuantizeOp quantize;
  ReduceOp amax;
  for (Operation *user : product.getUsers()) {
    if (auto q = dyn_cast<QuantizeOp>(user); q && !quantize) {
      quantize = q;
    } else if (auto magnitude = dyn_cast<math::AbsFOp>(user); magnitude && magnitude->hasOneUse() && !amax) {
      amax = dyn_cast<ReduceOp>(*magnitude->user_begin());
      if (!amax || !isAll(amax))
        return;
    } else {
      return;
    }
  }
  // Without an amax the scale's history would have no source; libraries write E4M3.
  if (!quantize || !amax || !isa<Float8E4M3FNType>(typeOf(quantize.getResult()).getElementType()))
    return;
  auto scale = quantize.getScale().getDefiningOp<SiteScaleOp>();
  if (!scale)
    return;
  if (!scale->isBeforeInBlock(op))
    scale->moveBefore(op);
  OpBuilder builder(op);
  auto folded = ScaledMatMulOp::create(builder, op.getLoc(), quantize.getResult().getType(), amax.getResult().getType(),
                                       op.getA(), op.getB(), op.getScaleA(), op.getScaleB(), op.getAddend(),
                                       op.getBias(), scale, op.getTransposeA(), op.getTransposeB());
  quantize.replaceAllUsesWith(folded.getResult());
  amax.replaceAllUsesWith(folded.getAmax());
  Operation *magnitude = amax.getInput().getDefiningOp();
  for (Operation *dead : {quantize.getOperation(), amax.getOperation(), magnitude, op.getOperation()})
    dead->erase();
}

struct QuantizeInGemms : impl::QuantizeInGemmsBase<QuantizeInGemms> {
  using Base::Base;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<ScaledMatMulOp> products;
      func.walk([&](ScaledMatMulOp op) { products.push_back(op); });
      llvm::for_each(products, quantise);
    }
  }
};

} // namespace
} // namespace msamp::fuse
