// The passes of the raise phase in their order.
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipeline.h"
#include "passes/raise/Passes.h"

using namespace mlir;

namespace msamp::raise {

void buildPipeline(OpPassManager &pm, const PipelineOptions &options) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createSimplifyLayout());
  pm.addPass(createCSEPass());
  pm.addPass(createRaiseNorms());
  pm.addPass(createRaiseActivations());
  pm.addPass(createRaiseRotary());
  pm.addPass(createRaiseAttention());
  pm.addPass(createTieTwins(options.parameterValues));
  pm.addPass(createFlattenTokens());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

} // namespace msamp::raise
