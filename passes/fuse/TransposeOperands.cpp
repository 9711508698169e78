// Hopper's FP8 GEMM wants both operands with the dimension that it sums over innermost.
#include "passes/fuse/ClusterDomain.h"
#include "passes/fuse/Passes.h"

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_TRANSPOSEOPERANDS
#include "passes/fuse/Passes.h.inc"
namespace {

struct TransposeOperands : impl::TransposeOperandsBase<TransposeOperands> {
  using Base::Base;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      known.clear();
      func.walk([&](ScaledMatMulOp op) {
        if (op.getTransposeA()) {
          op.getAMutable().assign(transposed(op.getA(), op));
          op.setTransposeA(false);
        }
        if (!op.getTransposeB()) {
          op.getBMutable().assign(transposed(op.getB(), op));
          op.setTransposeB(true);
        }
      });
    }
  }

  Value transposed(Value v, Operation *user) {
    Operation *def = v.getDefiningOp();
    // What the step has in memory anyway is turned anew for each product; what a kernel computes it can store both ways.
    bool isStored = !def || isa<GetOp>(def);
    if (Value earlier = isStored ? Value() : known.lookup(v))
      return earlier;
    OpBuilder builder(user);
    auto type = cast<RankedTensorType>(v.getType());
    // The location says whether it belongs to the forward or the backward: where it can be fused.
    Location loc = isStored ? user->getLoc() : def->getLoc();
    auto turned = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
    auto op = TransposeOp::create(builder, loc, turned, v, ArrayRef<int64_t>{1, 0});
    op->setAttr(storedAttr, builder.getUnitAttr());
    if (!isStored)
      known[v] = op.getResult();
    return op.getResult();
  }

  llvm::DenseMap<Value, Value> known;
};

} // namespace
} // namespace msamp::fuse
