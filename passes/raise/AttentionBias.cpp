// Joins the masks and biases of attention scores.
#include "passes/raise/AttentionBias.h"

#include "passes/raise/Match.h"

using namespace mlir;

namespace msamp::raise {
namespace {

// At most this is added to scores that are to be left out: exp() of the difference is 0 in FP32.
constexpr double maskValue = -1e4;

// Values of a constant of floats or booleans.
std::vector<double> valuesOf(DenseElementsAttr dense) {
  std::vector<double> values;
  values.reserve(dense.getNumElements());
  if (dense.getElementType().isF32())
    values.assign(dense.value_begin<float>(), dense.value_end<float>());
  else if (isa<FloatType>(dense.getElementType()))
    for (const APFloat &v : dense.getValues<APFloat>()) values.push_back(v.convertToDouble());
  else
    for (const APInt &v : dense.getValues<APInt>()) values.push_back(v.isZero() ? 0.0 : 1.0);
  return values;
}

// A term brought to [batch or 1, heads or 1, queries, keys], with values where it is constant.
class Term {
public:
  Term(OpBuilder &builder, Location loc, const ScoreShape &scores) : builder(builder), loc(loc), scores(scores) {}

  bool read(const ScoreTerm &term) {
    Value v = term.value;
    // Leading dimensions along which the term only repeats are left out.
    SmallVector<int64_t> full{scores.batch, scores.heads, scores.queries, scores.keys};
    auto type = tensorTypeOf(v);
    shape = full;
    Value source = v;
    if (auto broadcast = v.getDefiningOp<BroadcastOp>()) {
      bool last = llvm::is_contained(broadcast.getDims(), type.getRank() - 1);
      bool first = llvm::is_contained(broadcast.getDims(), type.getRank() - 2);
      source = broadcast.getInput();
      if (type.getRank() == 4 && type.getShape() == ArrayRef<int64_t>(full)) {
        for (int64_t d : {0, 1})
          if (!llvm::is_contained(broadcast.getDims(), d)) shape[d] = 1;
      } else if (type.getRank() == 3 && type.getDimSize(0) == scores.batch * scores.heads) {
        if (!llvm::is_contained(broadcast.getDims(), 0)) shape[0] = shape[1] = 1;
      }
      if (!first || !last || llvm::is_contained(shape, 0)) source = v;
      if (source == v) shape = full;
    }
    int64_t elements = tensorTypeOf(source).getNumElements();
    if (source == v) {
      // Not repeated, or along queries or keys: taken as it is.
      if (type.getRank() < 2 || type.getShape().take_back(2) != ArrayRef<int64_t>({scores.queries, scores.keys}))
        return false;
      int64_t leading = elements / (scores.queries * scores.keys);
      if (type.getRank() == 4 && (type.getDimSize(0) == 1 || type.getDimSize(0) == scores.batch) &&
          (type.getDimSize(1) == 1 || type.getDimSize(1) == scores.heads))
        shape = llvm::to_vector(type.getShape());
      else if (leading == 1)
        shape = {1, 1, scores.queries, scores.keys};
      else if (leading != scores.batch * scores.heads)
        return false;
      if (auto broadcast = v.getDefiningOp<BroadcastOp>()) source = shrinkRepeated(broadcast);
    }
    value = Expr(builder, loc, source).reshape(shape).value;
    if (DenseElementsAttr dense = constantOf(value); dense || (dense = constantOf(source))) {
      values = dense.isSplat() ? std::vector<double>(product(shape), valuesOf(dense).front()) : valuesOf(dense);
      if (term.masked)
        for (double &x : *values) x = (x != 0.0) == term.keep ? 0.0 : *term.masked;
      for (double &x : *values) x = x == 0.0 ? 0.0 : x * term.factor;
      dropEqualLeading();
      classify();
      return true;
    }
    // Otherwise computed: a select for a mask, scaled.
    if (term.masked) {
      auto floats = RankedTensorType::get(shape, builder.getF32Type());
      Value zero = splat(floats, 0.0), masked = splat(floats, *term.masked * term.factor);
      value = arith::SelectOp::create(builder, loc, value, term.keep ? zero : masked, term.keep ? masked : zero);
    } else if (term.factor != 1.0) {
      value = (Expr(builder, loc, value) * term.factor).value;
    }
    return true;
  }

  bool isZero() const { return values && (zero || (causal && belowZero)); }
  bool isCausal() const { return causal; }

  // The term as a tensor of `common`'s shape.
  Value tensor(ArrayRef<int64_t> common) {
    if (values) {
      SmallVector<float> floats(values->begin(), values->end());
      auto type = RankedTensorType::get(shape, builder.getF32Type());
      value = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, ArrayRef<float>(floats)));
    }
    SmallVector<int64_t> inner, dims;
    for (int64_t d = 0; d < 4; ++d)
      if (shape[d] == common[d]) {
        inner.push_back(shape[d]);
        dims.push_back(d);
      }
    return Expr(builder, loc, value).reshape(inner).broadcast(common, dims).value;
  }
  ArrayRef<int64_t> getShape() const { return shape; }

private:
  static int64_t product(ArrayRef<int64_t> shape) {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  Value splat(RankedTensorType type, double x) {
    return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, builder.getF32FloatAttr(x)));
  }

  // A broadcast along queries or keys (a padding mask, ALiBi) made only as large as the leading dimensions need.
  Value shrinkRepeated(BroadcastOp broadcast) {
    auto type = broadcast.getType();
    SmallVector<int64_t> small(type.getShape()), dims(broadcast.getDims());
    for (int64_t d = 0; d + 2 < type.getRank(); ++d)
      if (!llvm::is_contained(dims, d)) small[d] = 1;
    if (type.getRank() == 4) {
      shape = small;
    } else if (type.getRank() == 3 && small[0] == 1) {
      shape = {1, 1, scores.queries, scores.keys};
    } else {
      return broadcast.getResult();
    }
    return Expr(builder, loc, broadcast.getInput()).broadcast(small, dims).value;
  }

  // Equal values for all of a batch or all heads are stored once.
  void dropEqualLeading() {
    int64_t plane = scores.queries * scores.keys;
    auto planeOf = [&](int64_t b, int64_t h) { return values->begin() + (b * shape[1] + h) * plane; };
    bool sameHeads = shape[1] > 1, sameBatch = shape[0] > 1;
    for (int64_t b = 0; b < shape[0]; ++b)
      for (int64_t h = 0; h < shape[1]; ++h) {
        sameHeads = sameHeads && std::equal(planeOf(b, h), planeOf(b, h) + plane, planeOf(b, 0));
        sameBatch = sameBatch && std::equal(planeOf(b, h), planeOf(b, h) + plane, planeOf(0, h));
      }
    if (!sameHeads && !sameBatch) return;
    std::vector<double> kept;
    SmallVector<int64_t> smaller{sameBatch ? 1 : shape[0], sameHeads ? 1 : shape[1], shape[2], shape[3]};
    for (int64_t b = 0; b < smaller[0]; ++b)
      for (int64_t h = 0; h < smaller[1]; ++h) kept.insert(kept.end(), planeOf(b, h), planeOf(b, h) + plane);
    values = std::move(kept);
    shape = smaller;
  }

  // Whether all entries above the diagonal (which ends at the last key of the last query) are masked.
  void classify() {
    int64_t T = scores.queries, S = scores.keys;
    bool above = false;
    causal = belowZero = zero = true;
    for (int64_t n = 0; n < int64_t(values->size()); ++n) {
      int64_t t = n / S % T, s = n % S;
      double x = (*values)[n];
      if (x != 0.0) zero = false;
      if (s > t + S - T) {
        above = true;
        if (!(x <= maskValue)) causal = false;
      } else if (x != 0.0) {
        belowZero = false;
      }
    }
    causal = causal && above;
  }

  OpBuilder &builder;
  Location loc;
  ScoreShape scores;
  SmallVector<int64_t> shape;
  Value value;
  std::optional<std::vector<double>> values;
  bool causal = false, belowZero = false, zero = false;
};

} // namespace

std::optional<ScoreBias> joinTerms(OpBuilder &builder, Location loc, ArrayRef<ScoreTerm> terms, const ScoreShape &scores) {
  ScoreBias result;
  SmallVector<Term> kept;
  SmallVector<int64_t> common{1, 1, scores.queries, scores.keys};
  for (const ScoreTerm &term : terms) {
    Term read(builder, loc, scores);
    if (!read.read(term)) return std::nullopt;
    result.causal |= read.isCausal();
    if (read.isZero()) continue;
    for (int64_t d : {0, 1}) common[d] = std::max(common[d], read.getShape()[d]);
    kept.push_back(std::move(read));
  }
  for (Term &term : kept) {
    Value tensor = term.tensor(common);
    result.bias = result.bias ? arith::AddFOp::create(builder, loc, result.bias, tensor).getResult() : tensor;
  }
  return result;
}

} // namespace msamp::raise
