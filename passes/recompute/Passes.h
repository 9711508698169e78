// Passes of the recompute phase: creation, registration, and the pipeline that runs them.
#ifndef MSAMP_PASSES_RECOMPUTE_PASSES_H
#define MSAMP_PASSES_RECOMPUTE_PASSES_H

#include "ir/Msamp/Msamp.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace msamp {
struct PipelineOptions;

namespace recompute {

#define GEN_PASS_DECL
#include "passes/recompute/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/recompute/Passes.h.inc"

void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);

} // namespace recompute
} // namespace msamp
#endif
