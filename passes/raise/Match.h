// Helpers to recognise decomposed patterns: constants behind broadcasts, operands in either order, unit dimensions.
#ifndef MSAMP_PASSES_RAISE_MATCH_H
#define MSAMP_PASSES_RAISE_MATCH_H

#include "ir/Msamp/Expr.h"

#include <optional>
#include <utility>

namespace msamp::raise {

/// The one value of a splat constant, also behind broadcasts, reshapes and transposes.
std::optional<double> splatOf(mlir::Value v);

/// The dense constant behind `v`; null if it is none.
mlir::DenseElementsAttr constantOf(mlir::Value v);

inline bool near(double a, double b) {
  return std::abs(a - b) <= 1e-4 * std::abs(b);
}

/// Skips reshapes that only add or drop dimensions of size 1.
mlir::Value skipUnits(mlir::Value v);

/// Operands of a binary op of the given kind.
template <typename OpT>
std::optional<std::pair<mlir::Value, mlir::Value>> binary(mlir::Value v) {
  if (auto op = v.getDefiningOp<OpT>())
    return std::pair(op->getOperand(0), op->getOperand(1));
  return std::nullopt;
}

/// Operand and constant of a product or quotient by a constant, or of a negation: `factor * operand`.
std::optional<std::pair<mlir::Value, double>> scaled(mlir::Value v);

/// Operand and constant of a sum with a constant.
std::optional<std::pair<mlir::Value, double>> shifted(mlir::Value v);

/// The vector that `v` repeats along all dimensions but the last; null if it does not.
mlir::Value vectorOfLastDim(mlir::Value v);

/// The value that `v` repeats along the last dimension, with its unit dimensions skipped; null if it does not.
mlir::Value repeatedAlongLastDim(mlir::Value v);

/// Consecutive dimensions of one shape with the same product as consecutive dimensions of another.
struct DimGroup {
  int64_t aBegin, aEnd, bBegin, bEnd;
  int64_t aCount() const { return aEnd - aBegin; }
  int64_t bCount() const { return bEnd - bBegin; }
};
/// The finest such groups of two shapes with equally many elements; none where an extent is 0.
std::optional<llvm::SmallVector<DimGroup>> groupDims(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

llvm::SmallVector<int64_t> inverse(llvm::ArrayRef<int64_t> perm);

/// Whether `v` depends on a parameter that is trained.
bool dependsOnTrained(mlir::Value v);

} // namespace msamp::raise
#endif
