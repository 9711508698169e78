// What is added to attention scores: masks and position biases, collected into `causal` and one bias tensor.
#ifndef MSAMP_PASSES_RAISE_ATTENTIONBIAS_H
#define MSAMP_PASSES_RAISE_ATTENTIONBIAS_H

#include "mlir/IR/PatternMatch.h"

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

struct ScoreBias {
  bool causal = false;
  mlir::Value bias; ///< [batch or 1, heads or 1, queries, keys]; null for none
};

/// Joins the terms; none where one of them does not fit the scores.
std::optional<ScoreBias> joinTerms(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<ScoreTerm> terms,
                                   const ScoreShape &scores);

} // namespace msamp::raise
#endif
