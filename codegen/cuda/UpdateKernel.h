// Emission of the optimizer's multi-tensor update of one state class for a GPU.
#ifndef MSAMP_CODEGEN_CUDA_UPDATEKERNEL_H
#define MSAMP_CODEGEN_CUDA_UPDATEKERNEL_H

#include "codegen/cuda/ClusterKernel.h"
#include "passes/partition/StateClasses.h"

namespace msamp::codegen::cuda {

// Arguments of an update kernel, device pointers all. Those of values and blocks point to the first block of 128 values
// at hand; the others are of the whole class. What a class does not have may be null.
enum UpdateArgument {
  Weight,
  Master,
  Grad,
  GradBlockScale, // FP32 a block; null: GradScale holds
  M,
  MScale, // FP32 a block
  V,
  VScale,    // FP32 a block
  Owner,     // I32 a block: its parameter
  GradScale, // FP32 a parameter, as are the next four
  OldWeightScale,
  NewWeightScale,
  OldMasterScale,
  NewMasterScale,
  Amax,   // bits of FP32 a parameter: raised to the largest magnitude among the new weights
  Hyper,  // FP32, UpdateHyper of codegen/kernel/UpdateMath.h; Skip not 0: nothing is written
  Blocks, // one I64: blocks at hand
  UpdateArgumentCount
};

// The arithmetic is that of the CPU's kernel. `entry` has no grid: one CTA takes `blocksPerCta` blocks.
mlir::LogicalResult emitUpdateKernel(mlir::gpu::GPUModuleOp module, llvm::StringRef symbol,
                                     const partition::ClassStorage &storage, llvm::StringRef optimizer,
                                     const Target &target, KernelEntry &entry, int64_t &blocksPerCta);

} // namespace msamp::codegen::cuda

#endif
