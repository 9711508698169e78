// Passes of the loss phase: creation, registration, and the pipeline that runs them.
#ifndef MSAMP_PASSES_LOSS_PASSES_H
#define MSAMP_PASSES_LOSS_PASSES_H

#include "ir/Msamp/Msamp.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace msamp {
struct PipelineOptions;

namespace loss {

#define GEN_PASS_DECL
#include "passes/loss/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/loss/Passes.h.inc"

void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);

} // namespace loss
} // namespace msamp
#endif
