// Which FP32 values of a step are kept in memory as BF16.
#ifndef MSAMP_PASSES_PRECISION_STORAGEPLAN_H
#define MSAMP_PASSES_PRECISION_STORAGEPLAN_H

#include "ir/Msamp/Msamp.h"

namespace msamp::precision {

class StoragePlan {
public:
  explicit StoragePlan(mlir::func::FuncOp step);

  // The value is BF16: its op gives it so (`isNative`), or it is rounded after its definition.
  bool isBf16(mlir::Value v) const { return bf16.contains(v); }
  bool isNative(mlir::Value v) const;

  // Whether the op takes this operand as BF16 as it is.
  static bool takesBf16(mlir::OpOperand &use);
  // Work that ends a fused kernel: a library call, or a reduction across rows.
  static bool isBarrier(mlir::Operation *op);

private:
  void findActivations();
  void findNative();
  void findLongLived();
  void propagate();
  void require(mlir::Value v);
  bool crossesBarrier(mlir::Value v) const;
  bool onlyGradients(mlir::Value v);

  mlir::Block &body;
  mlir::Operation *terminator;
  llvm::DenseMap<mlir::Operation *, unsigned> order;
  llvm::DenseSet<unsigned> gradientOperands; // of the terminator
  llvm::DenseSet<mlir::Value> activations;   // depend on tokens; not constants, statistics or broadcasts
  llvm::DenseSet<mlir::Value> exact;         // FP32 on the way to an integer
  llvm::DenseSet<mlir::Value> bf16;
  llvm::DenseMap<mlir::Value, bool> gradientOnly;
};

} // namespace msamp::precision

#endif
