// The optimizer phase in order.
#include "passes/Pipeline.h"
#include "passes/optimizer/Passes.h"

namespace msamp::optimizer {

void buildPipeline(mlir::OpPassManager &pm, const msamp::PipelineOptions &options) {
  pm.addPass(createSplitPrograms());
  BuildUpdateOptions update;
  update.optimizer = options.optimizer;
  pm.addPass(createBuildUpdate(update));
}

} // namespace msamp::optimizer
