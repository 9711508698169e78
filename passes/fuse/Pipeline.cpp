// The fuse phase: named ops become primitive, primitive ops become clusters.
#include "passes/Pipeline.h"
#include "passes/fuse/Passes.h"

#include "mlir/Transforms/Passes.h"

void msamp::fuse::buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &) {
  pm.addPass(createExpandNamedOps());
  pm.addPass(createMarkBackward());
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
  pm.addPass(createFormClusters());
}
