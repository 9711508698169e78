// The schedule phase: from fused functions to the Plan dialect.
#ifndef MSAMP_PASSES_SCHEDULE_PASSES_H
#define MSAMP_PASSES_SCHEDULE_PASSES_H

#include "ir/Plan/Plan.h"
#include "mlir/Pass/Pass.h"

#include <functional>

namespace msamp {
struct PipelineOptions;
}

namespace msamp::schedule {

// How a code generator cuts a cluster into chunks, and the scratch that it needs.
struct KernelShape {
  int64_t chunks = 1;
  bool finish = false;
  int64_t workspaceBytes = 0;
};
using KernelShapeFn = std::function<KernelShape(ClusterOp)>;

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/schedule/Passes.h.inc"

// With the kernel shapes of a target; without one, kernels are of one chunk and need no scratch.
std::unique_ptr<mlir::Pass> createLowerToPlan(KernelShapeFn shape);

void buildPipeline(mlir::OpPassManager &manager, const PipelineOptions &options);

} // namespace msamp::schedule

#endif
