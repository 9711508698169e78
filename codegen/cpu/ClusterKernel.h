// Emission of one cluster as a CPU kernel.
#ifndef MSAMP_CODEGEN_CPU_CLUSTERKERNEL_H
#define MSAMP_CODEGEN_CPU_CLUSTERKERNEL_H

#include "codegen/cpu/CpuBuilder.h"
#include "passes/fuse/ClusterDomain.h"

namespace msamp::codegen {

// Values in FP32 that the partial sums of a cluster take in all.
int64_t partialValues(ClusterOp cluster, const fuse::ClusterDomain &domain);

// Adds `symbol` (and `symbol_finish`) to the module.
mlir::LogicalResult emitClusterKernel(mlir::ModuleOp module, ClusterOp cluster, llvm::StringRef symbol);

} // namespace msamp::codegen

#endif
