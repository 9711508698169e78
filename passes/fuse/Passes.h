// Passes of the fuse phase: named ops to primitive ones, primitive ones to clusters.
#ifndef MSAMP_PASSES_FUSE_PASSES_H
#define MSAMP_PASSES_FUSE_PASSES_H

#include "ir/Msamp/Msamp.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace msamp {
struct PipelineOptions;
namespace fuse {

#define GEN_PASS_DECL
#include "passes/fuse/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/fuse/Passes.h.inc"

void buildPipeline(mlir::OpPassManager &, const PipelineOptions &);

} // namespace fuse
} // namespace msamp

#endif
