// The passes of the schedule phase in order.
#include "passes/schedule/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "passes/Pipeline.h"

void msamp::schedule::buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options) {
  manager.addPass(createLowerToPlan(options.kernelShape));
  manager.addPass(createCalibrateFirst());
  manager.addPass(createAssignArenas());
  manager.addPass(createVerifyPlan());
}
