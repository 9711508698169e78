// The optimizer phase: its passes and its pipeline.
#ifndef MSAMP_PASSES_OPTIMIZER_PASSES_H
#define MSAMP_PASSES_OPTIMIZER_PASSES_H

#include "ir/Msamp/Msamp.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace msamp {
struct PipelineOptions;
}

namespace msamp::optimizer {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/optimizer/Passes.h.inc"

void buildPipeline(mlir::OpPassManager &pm, const msamp::PipelineOptions &options);

} // namespace msamp::optimizer

#endif
