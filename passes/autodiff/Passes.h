// Passes of the autodiff phase: creation, registration, and the pipeline that runs them.
#ifndef MSAMP_PASSES_AUTODIFF_PASSES_H
#define MSAMP_PASSES_AUTODIFF_PASSES_H

#include "ir/Msamp/Msamp.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace msamp {
struct PipelineOptions;

namespace autodiff {

#define GEN_PASS_DECL
#include "passes/autodiff/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/autodiff/Passes.h.inc"

void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);

} // namespace autodiff
} // namespace msamp
#endif
