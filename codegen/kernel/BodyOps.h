// Ops of a cluster's body as scalar or vector operations of a kernel, the same for all targets. A width of 0 means a
// scalar.
#ifndef MSAMP_CODEGEN_KERNEL_BODYOPS_H
#define MSAMP_CODEGEN_KERNEL_BODYOPS_H

#include "ir/Msamp/Msamp.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace msamp::codegen {

mlir::Type elementOf(mlir::Value tensor);
// The element type itself for width 0, else a vector.
mlir::Type widen(mlir::Type element, int64_t width);
// A constant of that scalar or vector type.
mlir::Value constantOf(mlir::ImplicitLocOpBuilder &b, mlir::Type type, mlir::Attribute element);
mlir::Value constantOf(mlir::ImplicitLocOpBuilder &b, mlir::Type type, double value);
mlir::Value integerOf(mlir::ImplicitLocOpBuilder &b, mlir::Type type, int64_t value);

// A constant of one value throughout.
bool isSplat(mlir::Operation *op);
mlir::Value emitSplat(mlir::ImplicitLocOpBuilder &b, mlir::Operation *op, int64_t width);

// What the op computes of operands that are already scalars or vectors: pointwise ops, and views, which change nothing.
// Not for iota and reductions.
mlir::Value emitBodyOp(mlir::ImplicitLocOpBuilder &b, mlir::Operation *op, mlir::ArrayRef<mlir::Value> operands,
                       int64_t width);

// The function and the neutral value of a reduction, in FP32.
mlir::Value combine(mlir::ImplicitLocOpBuilder &b, ReduceKind kind, mlir::Value x, mlir::Value y);
mlir::Value neutral(mlir::ImplicitLocOpBuilder &b, ReduceKind kind, int64_t width);

} // namespace msamp::codegen

#endif
