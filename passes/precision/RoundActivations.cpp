// BF16 in memory, FP32 in kernels: rounds what StoragePlan chose and widens it again where it is computed with.
#include "passes/precision/Analysis.h"
#include "passes/precision/Passes.h"
#include "passes/precision/StoragePlan.h"

using namespace mlir;

namespace msamp::precision {

#define GEN_PASS_DEF_ROUNDACTIVATIONS
#include "passes/precision/Passes.h.inc"

namespace {

struct RoundActivations : impl::RoundActivationsBase<RoundActivations> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (moduleString(module, "msamp.level", "fp32") == "fp32")
      return;
    func::FuncOp step = findStep(module);
    if (!step)
      return signalPassFailure();
    Block &body = step.getBody().front();
    StoragePlan plan(step);

    SmallVector<Operation *> ops;
    for (Operation &op : body)
      ops.push_back(&op);
    OpBuilder builder(&getContext());
    Type bf16 = builder.getBF16Type();
    SmallVector<Value> chosen;
    for (Value v : body.getArguments())
      if (plan.isBf16(v))
        chosen.push_back(v);
    for (Operation *op : ops)
      for (Value v : op->getResults())
        if (plan.isBf16(v))
          chosen.push_back(v);

    // After this loop each chosen value is BF16, and so is every use of it.
    llvm::DenseSet<Operation *> rounding;
    for (Value v : chosen) {
      if (plan.isNative(v)) {
        v.setType(withElement(tensorTypeOf(v), bf16));
        continue;
      }
      builder.setInsertionPointAfterValue(v);
      auto round = arith::TruncFOp::create(builder, v.getLoc(), withElement(tensorTypeOf(v), bf16), v);
      v.replaceAllUsesExcept(round.getResult(), round);
      rounding.insert(round);
    }
    widenUses(body, rounding);
    foldConversions(body);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
      if (isa<arith::ExtFOp, arith::TruncFOp>(op) && op.use_empty())
        op.erase();
    step.setFunctionType(
        FunctionType::get(&getContext(), step.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
  }

  // Users that compute get FP32. They share a widened value until the next kernel boundary (a library call, or a scale
  // that waits for a whole tensor's amax), so that it never has to be kept itself.
  static void widenUses(Block &body, const llvm::DenseSet<Operation *> &rounding) {
    llvm::DenseMap<Value, Value> widened;
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (isLibrary(&op) || isa<ScaleOfOp>(op))
        widened.clear();
      if (rounding.contains(&op) || isa<arith::ExtFOp>(op))
        continue;
      bool isReturn = op.hasTrait<OpTrait::IsTerminator>();
      for (OpOperand &use : op.getOpOperands()) {
        Value v = use.get();
        auto type = dyn_cast<RankedTensorType>(v.getType());
        if (!type || !type.getElementType().isBF16() || StoragePlan::takesBf16(use))
          continue;
        // Views keep the type; gradients are returned in theirs.
        if (isView(&op) && tensorTypeOf(op.getResult(0)).getElementType().isBF16())
          continue;
        if (isReturn && !isOutput(op, use.getOperandNumber()))
          continue;
        Value &wide = widened[v];
        if (!wide) {
          OpBuilder builder(&op);
          wide = arith::ExtFOp::create(builder, op.getLoc(), withElement(type, builder.getF32Type()), v);
        }
        use.set(wide);
      }
    }
  }

  static bool isOutput(Operation &ret, unsigned index) {
    return !cast<func::FuncOp>(ret.getParentOp()).getResultAttr(index, "msamp.grad");
  }

  // Whether a library op can write its result narrow.
  static bool writesNarrow(Operation *op) {
    return isa_and_nonnull<MatMulOp, ScatterAddOp>(op) || (op && isOverWindows(op));
  }

  // A filter's gradient is narrowed behind the transpose to the parameter's layout; before it the op writes it so.
  static void narrowEarlier(arith::TruncFOp narrow) {
    auto transpose = narrow.getIn().getDefiningOp<TransposeOp>();
    if (!transpose || !transpose->hasOneUse() || !transpose.getInput().hasOneUse() ||
        !transpose.getInput().getDefiningOp<ConvWgradOp>())
      return;
    Type element = tensorTypeOf(narrow.getResult()).getElementType();
    transpose.getInput().setType(withElement(tensorTypeOf(transpose.getInput()), element));
    transpose.getResult().setType(tensorTypeOf(narrow.getResult()));
    narrow.replaceAllUsesWith(transpose.getResult());
    narrow.erase();
  }

  // A result that is only narrowed is written narrow by the library op; narrowing what was just widened is nothing.
  static void foldConversions(Block &body) {
    for (Operation &op : llvm::make_early_inc_range(body)) {
      auto narrow = dyn_cast<arith::TruncFOp>(op);
      if (!narrow || !tensorTypeOf(narrow.getResult()).getElementType().isBF16())
        continue;
      Value wide = narrow.getIn();
      if (auto widen = wide.getDefiningOp<arith::ExtFOp>(); widen && widen.getIn().getType() == narrow.getType()) {
        narrow.replaceAllUsesWith(widen.getIn());
        narrow.erase();
      } else if (wide.hasOneUse() && writesNarrow(wide.getDefiningOp())) {
        wide.setType(narrow.getType());
        narrow.replaceAllUsesWith(wide);
        narrow.erase();
      } else {
        narrowEarlier(narrow);
      }
    }
  }
};

} // namespace
} // namespace msamp::precision
