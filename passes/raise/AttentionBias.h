// What is added to attention scores: masks and position biases, collected into `causal` and one bias tensor.
#ifndef MSAMP_PASSES_RAISE_ATTENTIONBIAS_H
#define MSAMP_PASSES_RAISE_ATTENTIONBIAS_H

#include "mlir/IR/Builders.h"

#include <optional>
#include <vector>

namespace msamp::raise {

/// Extents of an attention's scores.
struct ScoreShape {
  int64_t batch, heads, queries, keys;
};

/// A term added to the scores; its type has the scores' shape, perhaps with batch and heads merged, or 1 for them.
/// With `masked`, `value` is a condition, and the term is `*masked` where it is not `keep`, else 0.
struct ScoreTerm {
  mlir::Value value;
  std::optional<double> masked;
  bool keep = true;
  double factor = 1.0;
};

/// A term as a tensor [batch or 1, heads or 1, queries, keys], not built yet.
class BiasTerm {
public:
  /// None where the term does not fit the scores.
  static std::optional<BiasTerm> read(const ScoreTerm &term, const ScoreShape &scores);

  bool isCausal() const { return causal; }
  /// Nothing is left to add once `causal` is known.
  bool isNothing() const { return values && (zero || (causal && zeroBelow)); }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  /// The term, repeated to the given batch and heads.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<int64_t> common) const;

private:
  void dropEqualLeading();
  void classify();

  ScoreTerm term;
  llvm::SmallVector<int64_t> small;  // shape of the term's tensor without what only repeats along leading dimensions
  llvm::SmallVector<int64_t> shape;  // the same with batch and heads apart
  mlir::Value source;                // what is repeated along `dims` of `small`
  llvm::SmallVector<int64_t> dims;
  std::optional<std::vector<double>> values; // of a constant term
  bool causal = false, zeroBelow = false, zero = false;
};

/// The terms of the scores of one attention.
struct ScoreBias {
  bool causal = false;
  llvm::SmallVector<BiasTerm, 2> terms;

  static std::optional<ScoreBias> read(llvm::ArrayRef<ScoreTerm> terms, const ScoreShape &scores);
  /// Shape of the bias; empty where there is none.
  llvm::SmallVector<int64_t> shape() const;
  /// The sum of the terms; null where there is none.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location loc) const;
};

} // namespace msamp::raise
#endif
