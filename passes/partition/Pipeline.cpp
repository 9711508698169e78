// The partition phase in order.
#include "passes/Pipeline.h"
#include "passes/partition/Passes.h"

namespace msamp::partition {

void buildPipeline(mlir::OpPassManager &pm, const msamp::PipelineOptions &options) {
  PlaceGradientsOptions place;
  place.bucketMiB = options.bucketMiB;
  place.zero = options.zero;
  pm.addPass(createPlaceGradients(place));
  pm.addPass(createExchangeGradients());
}

} // namespace msamp::partition
