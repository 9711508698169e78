// GEMMs of FP8 operands for devices whose tensor cores have no FP8.
#include "passes/fuse/ClusterDomain.h"
#include "passes/fuse/Passes.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_WIDENPRODUCTS
#include "passes/fuse/Passes.h.inc"
namespace {

RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

struct WidenProducts : impl::WidenProductsBase<WidenProducts> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<ScaledMatMulOp> products;
    getOperation().walk([&](ScaledMatMulOp op) {
      // QuantizeInGemms makes those that quantise, later; operands with scales of blocks the runtime divides.
      bool blocks = typeOf(op.getScaleA()).getRank() > 1 || typeOf(op.getScaleB()).getRank() > 1;
      if (!op.getScaleOut() && !blocks)
        products.push_back(op);
    });
    for (ScaledMatMulOp op : products) {
      remark::analysis(op.getLoc(), remark::RemarkOpts::name("bf16").category("fuse"))
          << "the target multiplies no FP8: operands are FP8 values in BF16";
      Operation *before = op->getPrevNode();
      OpBuilder builder(op);
      Value a = widened(builder, op.getLoc(), op.getA(), op.getScaleA(), op.getTransposeA() ? 1 : 0);
      Value b = widened(builder, op.getLoc(), op.getB(), op.getScaleB(), op.getTransposeB() ? 0 : 1);
      auto product = MatMulOp::create(builder, op.getLoc(), op.getResult().getType(), a, b, op.getAddend(), op.getBias(),
                                      op.getTransposeA(), op.getTransposeB(), /*fp8_values=*/true);
      if (Attribute chunk = op->getAttr(chunkAttr)) // what is cut into chunks stays so
        for (Operation *made = op->getPrevNode(); made != before; made = made->getPrevNode())
          made->setAttr(chunkAttr, chunk);
      op.getResult().replaceAllUsesWith(product.getResult());
      op.erase();
    }
  }

  // `stored / scale` in BF16, of which a scale of rank 1 has an entry for each index of dimension `dim`. Made anew for each
  // product: CSE merges those of the forward and those of the backward, but keeps no wide copy between the two.
  static Value widened(OpBuilder &builder, Location loc, Value stored, Value scale, int64_t dim) {
    auto f32 = typeOf(stored).clone(builder.getF32Type());
    auto one = DenseElementsAttr::get(typeOf(scale), 1.0f);
    Value inverse = arith::DivFOp::create(builder, loc, arith::ConstantOp::create(builder, loc, one), scale);
    SmallVector<int64_t> dims;
    if (typeOf(scale).getRank() == 1)
      dims.push_back(dim);
    Value everywhere = BroadcastOp::create(builder, loc, f32, inverse, dims);
    Value value = arith::MulFOp::create(builder, loc, arith::ExtFOp::create(builder, loc, f32, stored), everywhere);
    return arith::TruncFOp::create(builder, loc, f32.clone(builder.getBF16Type()), value);
  }
};

} // namespace
} // namespace msamp::fuse
