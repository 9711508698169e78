// Tells the backward from the forward by an attribute, which CSE respects, where locations do not.
#include "passes/fuse/Passes.h"

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_MARKBACKWARD
#include "passes/fuse/Passes.h.inc"
namespace {

// "autodiff" or "recompute", whichever is outermost; null for the forward.
StringAttr originOf(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    auto origin = dyn_cast_or_null<StringAttr>(fused.getMetadata());
    if (origin && (origin == "autodiff" || origin == "recompute"))
      return origin;
    for (Location inner : fused.getLocations())
      if (StringAttr found = originOf(inner))
        return found;
  }
  if (auto name = dyn_cast<NameLoc>(loc))
    return originOf(name.getChildLoc());
  return {};
}

struct MarkBackward : impl::MarkBackwardBase<MarkBackward> {
  using Base::Base;
  void runOnOperation() override {
    auto mark = UnitAttr::get(&getContext());
    // Kernels that quantise blocks of tokens are others than those of the backward's rows: what is rebuilt for them is rebuilt
    // by them, not kept in FP32 by the others.
    auto recipe = getOperation()->getAttrOfType<StringAttr>("msamp.recipe");
    bool apart = recipe && recipe == "block";
    for (auto func : getOperation().getOps<func::FuncOp>())
      func.walk([&](Operation *op) {
        StringAttr origin = op == func || op->hasTrait<OpTrait::ConstantLike>() ? StringAttr() : originOf(op->getLoc());
        if (origin)
          op->setAttr("msamp.backward", apart && origin == "recompute" ? Attribute(origin) : Attribute(mark));
      });
  }
};

} // namespace
} // namespace msamp::fuse
