// The fuse phase: named ops become primitive, primitive ops become clusters.
#include "passes/Pipeline.h"
#include "passes/fuse/Passes.h"

#include "mlir/Transforms/Passes.h"

// Tensor cores multiply FP8 from compute capability 8.9 on; the CPU multiplies the values of any type.
static bool multipliesFp8(llvm::StringRef target) {
  int capability = 0;
  return !target.consume_front("sm_") || target.consumeInteger(10, capability) || capability >= 89;
}

void msamp::fuse::buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createFoldIntoGemms());
  bool gpu = llvm::StringRef(options.target).starts_with("sm_");
  pm.addPass(createExpandNamedOps());
  ChunkLossOptions chunks;
  chunks.bytes = options.lossChunkMiB << 20;
  chunks.align = gpu ? 64 : 1;
  pm.addPass(createChunkLoss(chunks));
  if (!multipliesFp8(options.target))
    pm.addPass(createWidenProducts());
  pm.addPass(createQuantizeInGemms());
  if (gpu || options.fp8Layout == "tn")
    pm.addPass(createTransposeOperands());
  pm.addPass(createMarkBackward());
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
  pm.addPass(createNarrowReductions());
  pm.addPass(createRewriteReductions());
  pm.addPass(createFormClusters());
}
