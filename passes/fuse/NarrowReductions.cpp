// Sums over rows are rounded where they are stored.
#include "passes/fuse/Passes.h"

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_NARROWREDUCTIONS
#include "passes/fuse/Passes.h.inc"
namespace {

struct NarrowReductions : impl::NarrowReductionsBase<NarrowReductions> {
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk([&](arith::TruncFOp op) {
      auto reduce = op.getIn().getDefiningOp<ReduceOp>();
      if (!reduce || !reduce.getResult().hasOneUse() || !sumsRows(reduce))
        return;
      reduce.getResult().setType(cast<RankedTensorType>(op.getType()));
      op.replaceAllUsesWith(reduce.getResult());
      op.erase();
    });
  }

  // All dimensions but the last, of more than one row and column: a kernel's second part adds up what chunks of rows have
  // summed.
  static bool sumsRows(ReduceOp op) {
    auto in = cast<RankedTensorType>(op.getInput().getType());
    int64_t columns = in.getRank() ? in.getShape().back() : 1;
    return op.getKind() == ReduceKind::Sum && in.getElementType().isF32() && columns > 1 &&
           in.getNumElements() > columns && static_cast<int64_t>(op.getDims().size()) == in.getRank() - 1 &&
           !llvm::is_contained(op.getDims(), in.getRank() - 1);
  }
};

} // namespace
} // namespace msamp::fuse
