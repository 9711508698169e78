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
    // What the step has in memory anyway is turned anew for each product (once for those of all chunks, which are neighbours);
    // what a kernel computes it can store both ways.
    bool isStored = (!def || isa<GetOp>(def)) && !user->hasAttr(chunkAttr);
    if (Value earlier = isStored ? Value() : known.lookup(v))
      return earlier;
    OpBuilder builder(user);
    auto type = cast<RankedTensorType>(v.getType());
    auto turned = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
    Operation *op;
    if (auto slice = dyn_cast_or_null<SliceOp>(def); slice && slice->hasAttr(inMemoryAttr)) {
      // A part of the transposed whole.
      Value whole = transposed(slice.getInput(), user);
      auto starts = slice.getStarts(), strides = slice.getStrides();
      op = SliceOp::create(builder, slice.getLoc(), turned, whole, ArrayRef<int64_t>{starts[1], starts[0]},
                           ArrayRef<int64_t>{strides[1], strides[0]});
      op->setAttr(inMemoryAttr, builder.getUnitAttr());
    } else {
      // The location says whether it belongs to the forward or the backward, the attributes to which chunk: where it can be
      // fused.
      bool isRead = !def || isa<GetOp>(def);
      op = TransposeOp::create(builder, isRead ? user->getLoc() : def->getLoc(), turned, v, ArrayRef<int64_t>{1, 0});
      op->setAttr(storedAttr, builder.getUnitAttr());
      for (StringRef name : {StringRef(chunkAttr), StringRef("msamp.backward")})
        if (Attribute side = isRead ? Attribute() : def->getAttr(name))
          op->setAttr(name, side);
    }
    if (!isStored)
      known[v] = op->getResult(0);
    return op->getResult(0);
  }

  llvm::DenseMap<Value, Value> known;
};

} // namespace
} // namespace msamp::fuse
