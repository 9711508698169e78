// The precision phase in order.
#include "passes/Pipeline.h"
#include "passes/precision/Passes.h"

namespace msamp::precision {

void buildPipeline(mlir::OpPassManager &pm, const msamp::PipelineOptions &options) {
  AssignStateClassesOptions classes;
  classes.level = options.level;
  classes.recipe = options.recipe;
  classes.accumulate = options.accumulate;
  classes.fp8Head = options.fp8Head;
  classes.margins.assign(options.margins.begin(), options.margins.end());
  pm.addPass(createAssignStateClasses(classes));
  pm.addPass(createQuantizeLinears());
  pm.addPass(createConvertGradients());
  pm.addPass(createRoundActivations());
}

} // namespace msamp::precision
