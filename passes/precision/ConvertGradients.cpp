// Returned gradients in the type that they are stored in.
#include "passes/partition/StateClasses.h"
#include "passes/precision/Analysis.h"
#include "passes/precision/Fp8Builder.h"
#include "passes/precision/Passes.h"

using namespace mlir;

namespace msamp::precision {

#define GEN_PASS_DEF_CONVERTGRADIENTS
#include "passes/precision/Passes.h.inc"

namespace {

struct ConvertGradients : impl::ConvertGradientsBase<ConvertGradients> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    func::FuncOp step = findStep(module);
    if (!step)
      return signalPassFailure();
    StringRef level = moduleString(module, "msamp.level", "fp32");
    int64_t accumulate = moduleInteger(module, "msamp.accumulate", 1);
    Fp8Builder fp8(module, moduleString(module, "msamp.recipe", "delayed"));
    Operation *ret = step.getBody().front().getTerminator();
    OpBuilder builder(&getContext());
    for (auto [index, param] : gradientResults(step)) {
      if (!param.getStateClass()) {
        param.emitError() << "parameter " << param.getSymName()
                          << " has no state class: run msamp-assign-state-classes first";
        return signalPassFailure();
      }
      auto storage = partition::storageOf(level, stringifyStateClass(*param.getStateClass()), "adamw", accumulate);
      Value grad = ret->getOperand(index);
      builder.setInsertionPointAfterValue(grad);
      Location loc = grad.getLoc();
      Value stored = grad;
      if (storage.grad == partition::Storage::BF16)
        stored = arith::TruncFOp::create(builder, loc, withElement(tensorTypeOf(grad), builder.getBF16Type()), grad);
      else if (storage.grad == partition::Storage::E4M3)
        stored = fp8.tensorwise(builder, loc, grad, (param.getSymName() + ".dw").str(), SiteKind::WeightGrad).values;
      ret->setOperand(index, stored);
    }
    step.setFunctionType(FunctionType::get(&getContext(), step.getArgumentTypes(), ret->getOperandTypes()));
  }
};

} // namespace
} // namespace msamp::precision
