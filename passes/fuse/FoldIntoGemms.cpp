// Additions that a GEMM does while it stores its result.
#include "passes/fuse/Passes.h"

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_FOLDINTOGEMMS
#include "passes/fuse/Passes.h.inc"
namespace {

RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

// The value itself, or what it was widened from.
Value stored(Value v) {
  auto ext = v.getDefiningOp<arith::ExtFOp>();
  return ext ? ext.getIn() : v;
}

// What a product takes along.
struct Sum {
  Value addend, bias;
  Value result; // the sum as the step has it
};

struct FoldIntoGemms : impl::FoldIntoGemmsBase<FoldIntoGemms> {
  using Base::Base;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      SmallVector<ProductOpInterface> products;
      func.walk([&](ProductOpInterface op) { products.push_back(op); });
      for (ProductOpInterface op : products)
        add(op);
    }
  }

  // Makes a value without operands of its own known at `op`.
  static bool available(Value v, Operation *op) {
    Operation *def = v.getDefiningOp();
    if (!def || def->getBlock() != op->getBlock() || def->isBeforeInBlock(op))
      return true;
    if (!isa<GetOp>(def))
      return false;
    def->moveBefore(op);
    return true;
  }

  // The stored vector behind a term that is the same in all rows.
  static Value biasBehind(Value term) {
    auto broadcast = term.getDefiningOp<BroadcastOp>();
    if (!broadcast || broadcast.getDims() != ArrayRef<int64_t>{typeOf(term).getRank() - 1})
      return {};
    return stored(broadcast.getInput());
  }

  static Sum collect(ProductOpInterface op) {
    Sum sum;
    sum.addend = op.getAddend();
    sum.bias = op.getBias();
    Value value = op.getResult();
    auto type = typeOf(value);
    bool narrow = type.getElementType().isBF16();
    if (!narrow && !type.getElementType().isF32())
      return sum;
    if (narrow) {
      if (!value.hasOneUse() || !isa<arith::ExtFOp>(*value.user_begin()))
        return sum;
      value = value.user_begin()->getResult(0);
    }
    // Reading a sum of products once instead of each of them pays even if it has to be rounded first.
    bool ofProducts = false;
    while (value.hasOneUse()) {
      auto addition = dyn_cast<arith::AddFOp>(*value.user_begin());
      if (!addition || addition.getLhs() == addition.getRhs())
        break;
      Value term = addition.getLhs() == value ? addition.getRhs() : addition.getLhs();
      Value bias = biasBehind(term), addend = stored(term);
      if (bias && !sum.bias && typeOf(bias).getElementType() == type.getElementType() && available(bias, op)) {
        sum.bias = bias;
      } else if (!sum.addend && !bias && addend.getType() == type && addend.getDefiningOp() && available(addend, op)) {
        sum.addend = addend;
        ofProducts |= isa<ProductOpInterface>(addend.getDefiningOp()) && addend.hasOneUse();
      } else {
        break;
      }
      value = addition.getResult();
      if (!narrow || ofProducts)
        sum.result = value;
      if (auto round = value.hasOneUse() ? dyn_cast<arith::TruncFOp>(*value.user_begin()) : arith::TruncFOp();
          narrow && round && round.getType() == type)
        sum.result = round.getResult();
    }
    return sum;
  }

  void add(ProductOpInterface op) {
    Sum sum = collect(op);
    if (!sum.result)
      return;
    op.getAddendMutable().assign(sum.addend ? ValueRange(sum.addend) : ValueRange());
    op.getBiasMutable().assign(sum.bias ? ValueRange(sum.bias) : ValueRange());
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(op);
    Value value = op.getResult();
    Operation *first = *value.user_begin();
    if (sum.result.getType() != value.getType())
      value = arith::ExtFOp::create(builder, op.getLoc(), sum.result.getType(), value);
    sum.result.replaceAllUsesWith(value);
    // From the last addition back to the first use of the product.
    for (Operation *dead = sum.result.getDefiningOp(); dead;) {
      Operation *before = dead == first ? nullptr : previous(dead, first);
      dead->erase();
      dead = before;
    }
  }

  // The op before `op` on the chain of single uses that begins with `first`.
  static Operation *previous(Operation *op, Operation *first) {
    for (Operation *at = first; at; at = *at->getResult(0).user_begin())
      if (llvm::is_contained(op->getOperands(), at->getResult(0)) && at->hasOneUse() && *at->user_begin() == op)
        return at;
    return nullptr;
  }
};

} // namespace
} // namespace msamp::fuse
