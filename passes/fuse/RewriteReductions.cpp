// Makes of reductions that no loop nest takes what one does: two of them, or one of an image that is turned in memory
// before it, or of values that are repeated in memory. Of what is only repeated there is nothing to reduce.
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

// A reduction of repeated values along the dimensions that repeat them: of the values themselves, a sum times as often.
// The one over other dimensions that is left, or null.
ReduceOp reduceOnce(ReduceOp reduce, BroadcastOp broadcast) {
  OpBuilder builder(reduce);
  auto type = cast<RankedTensorType>(broadcast.getType()), result = cast<RankedTensorType>(reduce.getType());
  Value value = broadcast.getInput();
  SmallVector<int64_t> rest, kept; // dimensions of the value: that are reduced; of the result: where the others are
  int64_t times = 1, place = 0;
  for (int64_t d = 0; d < type.getRank(); ++d) {
    auto from = llvm::find(broadcast.getDims(), d);
    const bool repeats = from == broadcast.getDims().end(), reduced = llvm::is_contained(reduce.getDims(), d);
    if (reduced && repeats)
      times *= type.getDimSize(d);
    else if (reduced)
      rest.push_back(from - broadcast.getDims().begin());
    else if (!repeats)
      kept.push_back(place);
    place += !reduced;
  }
  ReduceOp left;
  if (!rest.empty()) {
    SmallVector<int64_t> shape;
    for (int64_t at : kept)
      shape.push_back(result.getDimSize(at));
    left = ReduceOp::create(builder, reduce.getLoc(), result.clone(shape), reduce.getKind(), value, rest);
    left->setDiscardableAttrs(reduce->getDiscardableAttrDictionary());
    value = left;
  }
  if (value.getType() != result)
    value = BroadcastOp::create(builder, reduce.getLoc(), result, value, kept);
  if (reduce.getKind() == ReduceKind::Sum && times > 1) {
    Attribute count = builder.getFloatAttr(result.getElementType(), static_cast<double>(times));
    Value all = arith::ConstantOp::create(builder, reduce.getLoc(), DenseElementsAttr::get(result, count));
    value = arith::MulFOp::create(builder, reduce.getLoc(), value, all);
  }
  reduce.replaceAllUsesWith(value);
  reduce.erase();
  return left;
}

// Where that is so, and the types leave no rounding in between.
BroadcastOp repeatsWhatIsReduced(ReduceOp reduce) {
  auto broadcast = reduce.getInput().getDefiningOp<BroadcastOp>();
  auto type = cast<RankedTensorType>(reduce.getType());
  if (!broadcast || !type.getElementType().isF32() ||
      cast<RankedTensorType>(broadcast.getType()).getElementType() != type.getElementType())
    return {};
  bool any = llvm::any_of(reduce.getDims(), [&](int64_t d) { return !llvm::is_contained(broadcast.getDims(), d); });
  return any ? broadcast : BroadcastOp();
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
    if (BroadcastOp broadcast = repeatsWhatIsReduced(reduce)) {
      reduce = reduceOnce(reduce, broadcast);
      if (!reduce)
        return;
    } else if (split(reduce))
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
