// Emission of one cluster as GPU kernels at the level of one thread.
#ifndef MSAMP_CODEGEN_CUDA_CLUSTERKERNEL_H
#define MSAMP_CODEGEN_CUDA_CLUSTERKERNEL_H

#include "codegen/cuda/Target.h"
#include "ir/Msamp/Msamp.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

namespace msamp::codegen::cuda {

// An entry point; those of a kernel run in order, each with the kernel's arguments.
struct KernelEntry {
  std::string symbol;
  int64_t gridX = 1, gridY = 1, block = 1, sharedBytes = 0; // sharedBytes: dynamic, beside what the module declares
};

// Adds the entry points of a cluster to the module, as llvm.func with nvvm.kernel and one pointer (address space 1) an
// argument: operands, results, then the workspace if clusterWorkspaceBytes says that there is one. Inside are nvvm,
// llvm, arith, math, vector, scf and cf operations; arith.extf and arith.truncf of BF16, F16 and FP8 (saturating, as on
// the CPU) and math functions are left to the target's lowering.
mlir::LogicalResult emitClusterKernel(mlir::gpu::GPUModuleOp module, ClusterOp cluster, llvm::StringRef symbol,
                                      const Target &target, llvm::SmallVectorImpl<KernelEntry> &entries);

// Bytes of partial sums that the kernel wants between its entries; 0: no workspace argument.
int64_t clusterWorkspaceBytes(ClusterOp cluster, const Target &target);

} // namespace msamp::codegen::cuda

#endif
