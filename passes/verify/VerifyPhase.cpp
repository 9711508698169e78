// Checks, after a phase, what the phases behind it rely on.
#include "ir/Msamp/Msamp.h"
#include "passes/verify/Checks.h"
#include "passes/verify/Passes.h"

using namespace mlir;

namespace msamp::verify {

#define GEN_PASS_DEF_VERIFYPHASE
#include "passes/verify/Passes.h.inc"

namespace {

struct VerifyPhase : impl::VerifyPhaseBase<VerifyPhase> {
  using VerifyPhaseBase::VerifyPhaseBase;

  void runOnOperation() override {
    if (failed(checkPhase(getOperation(), phase)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace

LogicalResult checkPhase(ModuleOp module, StringRef phase) {
  if (phase == "import")
    return checkImport(module);
  if (phase == "raise")
    return checkRaise(module);
  if (phase == "loss")
    return checkLoss(module);
  if (phase == "autodiff" || phase == "recompute")
    return checkGradients(module);
  if (phase == "precision")
    return checkPrecision(module);
  if (phase == "partition")
    return checkPartition(module);
  if (phase == "optimizer")
    return checkOptimizer(module);
  return success();
}

} // namespace msamp::verify
