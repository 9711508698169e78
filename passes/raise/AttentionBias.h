// What is added to attention scores: masks and position biases, collected into `causal` and one bias tensor.
#ifndef MSAMP_PASSES_RAISE_ATTENTIONBIAS_H
#define MSAMP_PASSES_RAISE_ATTENTIONBIAS_H

#include "mlir/IR/Builders.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>
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

/// A constant term, judged.
struct ConstantBias {
  llvm::SmallVector<int64_t> shape; ///< [batch or 1, heads or 1, queries, keys]
  std::vector<float> values;
  bool causal = false;    ///< all entries above the diagonal are masked
  bool zeroBelow = false; ///< all others are 0
  bool zero = false;

  ConstantBias(llvm::ArrayRef<int64_t> shape, std::vector<float> values);
};

/// Layers share their masks, which may have millions of entries: each is judged once.
using BiasCache =
    std::map<std::tuple<const void *, std::vector<int64_t>, double, bool, double>, std::shared_ptr<const ConstantBias>>;

/// A term as a tensor [batch or 1, heads or 1, queries, keys], not built yet.
class BiasTerm {
public:
  /// None where the term does not fit the scores.
  static std::optional<BiasTerm> read(const ScoreTerm &term, const ScoreShape &scores, BiasCache &cache);

  bool isCausal() const { return constant && constant->causal; }
  /// Nothing is left to add once `causal` is known.
  bool isNothing() const { return constant && (constant->zero || (constant->causal && constant->zeroBelow)); }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  /// The term, repeated to the given batch and heads.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<int64_t> common) const;

private:
  ScoreTerm term;
  llvm::SmallVector<int64_t> small; // shape of the term's tensor without what only repeats along leading dimensions
  llvm::SmallVector<int64_t> shape; // the same with batch and heads apart
  mlir::Value source;               // what is repeated along `dims` of `small`
  llvm::SmallVector<int64_t> dims;
  std::shared_ptr<const ConstantBias> constant; // of a constant term
};

/// The terms of the scores of one attention.
struct ScoreBias {
  bool causal = false;
  llvm::SmallVector<BiasTerm, 2> terms;

  static std::optional<ScoreBias> read(llvm::ArrayRef<ScoreTerm> terms, const ScoreShape &scores, BiasCache &cache);
  /// Shape of the bias; empty where there is none.
  llvm::SmallVector<int64_t> shape() const;
  /// The sum of the terms; null where there is none.
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location loc) const;
};

} // namespace msamp::raise
#endif
