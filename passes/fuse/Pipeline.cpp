// The fuse phase: named ops become primitive, primitive ops become clusters.
#include "passes/Pipeline.h"
#include "passes/fuse/Passes.h"

#include "mlir/Transforms/Passes.h"

void msamp::fuse::buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createFoldIntoGemms());
  bool gpu = llvm::StringRef(options.target).starts_with("sm_");
  pm.addPass(createExpandNamedOps());
  ChunkLossOptions chunks;
  chunks.bytes = options.lossChunkMiB << 20;
  chunks.align = gpu ? 64 : 1;
  pm.addPass(createChunkLoss(chunks));
  pm.addPass(createQuantizeInGemms());
  if (gpu || options.fp8Layout == "tn")
    pm.addPass(createTransposeOperands());
  pm.addPass(createMarkBackward());
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
  pm.addPass(createNarrowReductions());
  pm.addPass(createFormClusters());
}
