// Finds the exclusive upper bound of index inputs from what they index.
#include "passes/schedule/Passes.h"

namespace msamp::schedule {
#define GEN_PASS_DEF_NOTEINPUTBOUNDS
#include "passes/schedule/Passes.h.inc"

namespace {
using namespace mlir;

void note(int64_t &bound, int64_t found) {
  bound = bound == 0 ? found : std::min(bound, found);
}

// Follows a value through ops that keep its elements' values.
void follow(Value value, int64_t &bound) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto gather = dyn_cast<GatherOp>(user)) {
      if (use.get() == gather.getIndices())
        note(bound, cast<RankedTensorType>(gather.getTable().getType()).getDimSize(gather.getAxis()));
    } else if (auto loss = dyn_cast<CrossEntropyOp>(user)) {
      if (use.get() == loss.getLabels())
        note(bound, cast<RankedTensorType>(loss.getLogits().getType()).getDimSize(1));
    } else if (isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, arith::ExtSIOp, arith::TruncIOp>(user)) {
      follow(user->getResult(0), bound);
    }
  }
}

struct NoteInputBounds : impl::NoteInputBoundsBase<NoteInputBounds> {
  void runOnOperation() override {
    Builder b(&getContext());
    SmallVector<NamedAttribute> bounds;
    for (auto func : getOperation().getOps<func::FuncOp>())
      for (BlockArgument arg : func.getArguments()) {
        auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "msamp.name");
        auto type = dyn_cast<RankedTensorType>(arg.getType());
        if (!name || !type || !isa<IntegerType>(type.getElementType()))
          continue;
        int64_t bound = 0;
        follow(arg, bound);
        if (bound)
          bounds.push_back(b.getNamedAttr(name.getValue(), b.getI64IntegerAttr(bound)));
      }
    getOperation()->setAttr("msamp.bounds", b.getDictionaryAttr(bounds));
  }
};
} // namespace
} // namespace msamp::schedule
