// Sums of the gradients of a value's uses.
#ifndef MSAMP_PASSES_AUTODIFF_GRADIENTS_H
#define MSAMP_PASSES_AUTODIFF_GRADIENTS_H

#include "ir/Msamp/Msamp.h"
#include "llvm/ADT/DenseMap.h"

namespace msamp::autodiff {

/// Where an op made for the gradient of a node comes from: fused<"autodiff">[node].
mlir::Location gradientLoc(mlir::Location node);

/// Collects gradients of values in the order in which the backward makes them.
class GradientSums {
public:
  explicit GradientSums(mlir::OpBuilder &builder) : builder(builder) {}
  void add(mlir::Value value, mlir::Value grad) { parts[value].push_back(grad); }
  /// The sum of what was added for `value`, null where nothing was.
  mlir::Value take(mlir::Value value);
  /// Sum as a balanced tree in the order of `terms`: the same bits whenever the graph is the same, and the rounding
  /// error of log(n) instead of n additions.
  mlir::Value balanced(llvm::ArrayRef<mlir::Value> terms, mlir::Location loc);

private:
  mlir::OpBuilder &builder;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 2>> parts;
};

} // namespace msamp::autodiff
#endif
