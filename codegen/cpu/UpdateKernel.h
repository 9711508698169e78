// Emission of the optimizer's multi-tensor update of one state class.
#ifndef MSAMP_CODEGEN_CPU_UPDATEKERNEL_H
#define MSAMP_CODEGEN_CPU_UPDATEKERNEL_H

#include "codegen/cpu/KernelBuilder.h"
#include "passes/partition/StateClasses.h"

namespace msamp::codegen {

// Arguments of an update kernel; pointers to the first of a run of blocks of 128 values. Per-block arrays are FP32, one
// value a block.
enum UpdateArgument {
  Weight,
  Master,
  Grad,
  GradScale,
  M,
  MScale,
  V,
  VScale,
  OldWeightScale,
  NewWeightScale,
  OldMasterScale,
  NewMasterScale,
  BlockAmax, // written: largest magnitude among the block's new weights
  Hyper,     // FP32, see UpdateHyper
  UpdateArgumentCount
};
// `GradFactor` is the clip factor over the number of summed micro-batches; BiasM and BiasV are 1 / (1 - beta^t). With
// Skip not 0 the kernel writes nothing.
enum UpdateHyper { LearningRate, Beta1, Beta2, Epsilon, WeightDecay, GradFactor, BiasM, BiasV, Skip, UpdateHyperCount };

mlir::LogicalResult emitUpdateKernel(mlir::ModuleOp module, llvm::StringRef symbol,
                                     const partition::ClassStorage &storage, llvm::StringRef optimizer);

} // namespace msamp::codegen

#endif
