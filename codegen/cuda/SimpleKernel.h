// Any cluster as GPU kernels, one thread a chunk of the CPU's kernel: slow, but for everything that clusters can be.
#ifndef MSAMP_CODEGEN_CUDA_SIMPLEKERNEL_H
#define MSAMP_CODEGEN_CUDA_SIMPLEKERNEL_H

#include "codegen/cuda/ClusterKernel.h"

namespace msamp::codegen::cuda {

// As emitClusterKernel and clusterWorkspaceBytes.
mlir::LogicalResult emitSimpleKernel(mlir::gpu::GPUModuleOp module, ClusterOp cluster, llvm::StringRef symbol,
                                     llvm::SmallVectorImpl<KernelEntry> &entries);
int64_t simpleWorkspaceBytes(ClusterOp cluster);

} // namespace msamp::codegen::cuda

#endif
