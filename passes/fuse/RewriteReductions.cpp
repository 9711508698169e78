// Makes of reductions that no loop nest takes what one does: two of them, or one of an image that is turned in memory
// before it, or of values that are repeated in memory.
#include "passes/fuse/ClusterDomain.h"
#include "passes/fuse/Passes.h"

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_REWRITEREDUCTIONS
#include "passes/fuse/Passes.h.inc"
namespace {

// A sum over what lies innermost and over something outside of what it keeps (channels of [batch, channels, positions])
// is two: of rows, and of their sums. Whether it was that.
bool split(ReduceOp reduce) {
  auto type = cast<RankedTensorType>(reduce.getInput().getType());
  SmallVector<int64_t> rest(reduce.getDims()), inner, shape(type.getShape());
  llvm::sort(rest);
  while (!rest.empty() && rest.back() == static_cast<int64_t>(shape.size()) - 1) {
    inner.insert(inner.begin(), rest.pop_back_val());
    shape.pop_back();
  }
  if (inner.empty() || rest.empty() || shape.size() == rest.size() || !type.getElementType().isF32())
    return false;
  OpBuilder builder(reduce);
  auto rows = ReduceOp::create(builder, reduce.getLoc(), RankedTensorType::get(shape, type.getElementType()),
                               reduce.getKind(), reduce.getInput(), inner);
  rows->setDiscardableAttrs(reduce->getDiscardableAttrDictionary());
  reduce.getInputMutable().assign(rows);
  reduce.setDims(rest);
  return true;
}

void rewrite(ReduceOp reduce) {
  for (;;) {
    // As a cluster would take it: with the views before it.
    SmallVector<Operation *> chain = {reduce};
    Operation *nearest = nullptr, *def = reduce.getInput().getDefiningOp();
    ReshapeOp reshape, repeated; // the nearest one, and the nearest one of what was broadcast
    for (; def && isFree(def) && def->getNumOperands() == 1; def = def->getOperand(0).getDefiningOp()) {
      chain.push_back(def);
      if (!nearest && isa<TransposeOp>(def))
        nearest = def;
      if (!reshape)
        reshape = dyn_cast<ReshapeOp>(def);
      if (!repeated && isa<BroadcastOp>(def))
        repeated = reshape;
    }
    std::reverse(chain.begin(), chain.end());
    if (succeeded(ClusterDomain::analyze(chain, Value(reduce.getResult()))))
      return;
    if (split(reduce))
      reduce = reduce.getInput().getDefiningOp<ReduceOp>(); // the other one is of outer dimensions alone
    else if (nearest)
      nearest->setAttr(storedAttr, UnitAttr::get(reduce.getContext()));
    else if (repeated)
      repeated->setAttr(inMemoryAttr, UnitAttr::get(reduce.getContext()));
    else
      return;
  }
}

struct RewriteReductions : impl::RewriteReductionsBase<RewriteReductions> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<ReduceOp> list;
    getOperation().walk([&](ReduceOp reduce) { list.push_back(reduce); });
    for (ReduceOp reduce : list)
      rewrite(reduce);
  }
};

} // namespace
} // namespace msamp::fuse
