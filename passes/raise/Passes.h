// Passes of the raise phase: creation, registration, and the pipeline that runs them.
#ifndef MSAMP_PASSES_RAISE_PASSES_H
#define MSAMP_PASSES_RAISE_PASSES_H

#include "ir/Msamp/Msamp.h"
#include "mlir/Pass/Pass.h"
#include "passes/raise/ParameterValues.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace msamp {
struct PipelineOptions;

namespace raise {

#define GEN_PASS_DECL
#include "passes/raise/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/raise/Passes.h.inc"

/// TieTwins with a way to read initializers; without one, as the registered pass, it ties what its option names.
std::unique_ptr<mlir::Pass> createTieTwins(OpenParameterValues open);

void buildPipeline(mlir::OpPassManager &pm, const PipelineOptions &options);

} // namespace raise
} // namespace msamp
#endif
