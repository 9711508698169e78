// Tells the backward from the forward by an attribute, which CSE respects, where locations do not.
#include "passes/fuse/Passes.h"

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_MARKBACKWARD
#include "passes/fuse/Passes.h.inc"
namespace {

bool isOfBackward(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    auto origin = dyn_cast_or_null<StringAttr>(fused.getMetadata());
    if (origin && (origin == "autodiff" || origin == "recompute"))
      return true;
    return llvm::any_of(fused.getLocations(), isOfBackward);
  }
  if (auto name = dyn_cast<NameLoc>(loc))
    return isOfBackward(name.getChildLoc());
  return false;
}

struct MarkBackward : impl::MarkBackwardBase<MarkBackward> {
  using Base::Base;
  void runOnOperation() override {
    auto mark = UnitAttr::get(&getContext());
    for (auto func : getOperation().getOps<func::FuncOp>())
      func.walk([&](Operation *op) {
        if (op != func && !op->hasTrait<OpTrait::ConstantLike>() && isOfBackward(op->getLoc()))
          op->setAttr("msamp.backward", mark);
      });
  }
};

} // namespace
} // namespace msamp::fuse
