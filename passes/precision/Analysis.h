// What the precision passes ask about a step: which op belongs to the backward, where a gradient comes from, which GEMM
// is the head.
#ifndef MSAMP_PASSES_PRECISION_ANALYSIS_H
#define MSAMP_PASSES_PRECISION_ANALYSIS_H

#include "ir/Msamp/Msamp.h"

#include "llvm/ADT/MapVector.h"

namespace msamp::precision {

// The step that precision works on: @step of the module, or null with an error.
mlir::func::FuncOp findStep(mlir::ModuleOp module);

// Made by autodiff (and not a forward op that recompute put into the backward).
bool isBackward(mlir::Operation *op);
// A copy of a forward op that recompute put into the backward.
bool isRebuilt(mlir::Operation *op);

// Result index of @step -> the parameter whose gradient it is.
llvm::MapVector<unsigned, ParameterOp> gradientResults(mlir::func::FuncOp step);

// Rank-2 products that a parameter's gradient is the sum of; looks through transposes, reshapes and additions.
void collectWeightGradients(mlir::Value grad, llvm::SmallVectorImpl<MatMulOp> &products);

// The product that gives what the loss is computed from: the last one that reaches it through pointwise ops, reductions
// and views alone. Null where there is none.
MatMulOp findHead(mlir::func::FuncOp step);

// Pointwise: arith, math, and the named ops that work on each element or row.
bool isPointwise(mlir::Operation *op);
// Data movement that works on any element type.
bool isView(mlir::Operation *op);
// Convolutions, pools and their gradients: BF16 operands and results, FP32 sums.
bool isOverWindows(mlir::Operation *op);
// Runs as a call of a library, whose operands and results are in memory.
bool isLibrary(mlir::Operation *op);

// The parameter that a value is, looking through transposes; `flips` tells whether their number is odd.
GetOp parameterBehind(mlir::Value value, bool &flips);

inline mlir::RankedTensorType tensorTypeOf(mlir::Value v) {
  return mlir::cast<mlir::RankedTensorType>(v.getType());
}
inline mlir::RankedTensorType withElement(mlir::RankedTensorType type, mlir::Type element) {
  return mlir::RankedTensorType::get(type.getShape(), element);
}
bool isF32Tensor(mlir::Value v);

llvm::StringRef moduleString(mlir::ModuleOp module, llvm::StringRef name, llvm::StringRef otherwise);
int64_t moduleInteger(mlir::ModuleOp module, llvm::StringRef name, int64_t otherwise);

// FP32 values on the way to an integer (positions counted from a mask, say). They stay exact: BF16 has no 257.
llvm::DenseSet<mlir::Value> exactValues(mlir::Block &body);

} // namespace msamp::precision

#endif
