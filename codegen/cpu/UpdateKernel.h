// Emission of the optimizer's multi-tensor update of one state class.
#ifndef MSAMP_CODEGEN_CPU_UPDATEKERNEL_H
#define MSAMP_CODEGEN_CPU_UPDATEKERNEL_H

#include "codegen/cpu/CpuBuilder.h"
#include "codegen/kernel/UpdateMath.h"

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

mlir::LogicalResult emitUpdateKernel(mlir::ModuleOp module, llvm::StringRef symbol,
                                     const partition::ClassStorage &storage, llvm::StringRef optimizer);

} // namespace msamp::codegen

#endif
