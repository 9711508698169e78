// @step becomes the two programs that run on data: @micro_step, which trains, and @eval, which only looks.
#include "passes/optimizer/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace msamp::optimizer {

#define GEN_PASS_DEF_SPLITPROGRAMS
#include "passes/optimizer/Passes.h.inc"

namespace {

void eraseDead(Block &body) {
  // From the end, so that the operands of what is erased are seen later.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op)) op.erase();
}

struct SplitPrograms : impl::SplitProgramsBase<SplitPrograms> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    if (!step || !step.getBody().hasOneBlock() || step.getNumResults() == 0) {
      module.emitError() << "no function @step of one block that returns a loss: run the autodiff phase first";
      return signalPassFailure();
    }
    for (unsigned i = 0; i < step.getNumResults(); ++i)
      if (step.getResultAttr(i, "msamp.grad")) {
        step.emitError() << "result " << i << " is a gradient: run the partition phase first";
        return signalPassFailure();
      }
    auto eval = step.clone();
    eval.setName("eval");
    module.insert(std::next(step->getIterator()), eval);
    for (Operation &op : llvm::make_early_inc_range(eval.getBody().front()))
      if (isa<StoreGradOp, ExchangeOp, RecordAmaxOp, TrackOp>(op)) op.erase();
    eraseDead(eval.getBody().front());

    step.setName("micro_step");
    llvm::BitVector outputs(step.getNumResults(), true);
    outputs.reset(0);
    step.getBody().front().getTerminator()->eraseOperands(outputs);
    if (failed(step.eraseResults(outputs))) return signalPassFailure();
    eraseDead(step.getBody().front());
  }
};

} // namespace
} // namespace msamp::optimizer
