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

int64_t product(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  return n;
}

// Operand dimension i of `values` becomes dimension dims[i] of `shape`; the others repeat.
std::vector<double> repeat(const std::vector<double> &values, ArrayRef<int64_t> dims, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 0), index(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t d : llvm::reverse(dims)) {
    strides[d] = stride;
    stride *= shape[d];
  }
  std::vector<double> result(product(shape));
  for (double &x : result) {
    int64_t at = 0;
    for (auto [i, s] : llvm::zip(index, strides)) at += i * s;
    x = values[at];
    for (int64_t d = int64_t(shape.size()) - 1; d >= 0 && ++index[d] == shape[d]; --d) index[d] = 0;
  }
  return result;
}

} // namespace

std::optional<BiasTerm> BiasTerm::read(const ScoreTerm &term, const ScoreShape &scores) {
  BiasTerm result;
  result.term = term;
  auto type = tensorTypeOf(term.value);
  int64_t rank = type.getRank();
  if (rank < 2 || rank > 4) return std::nullopt;
  result.small = llvm::to_vector(type.getShape());
  if (auto broadcast = term.value.getDefiningOp<BroadcastOp>()) {
    result.source = broadcast.getInput();
    result.dims = llvm::to_vector(broadcast.getDims());
    for (int64_t d = 0; d + 2 < rank; ++d)
      if (!llvm::is_contained(result.dims, d)) result.small[d] = 1;
  } else {
    result.source = term.value;
    result.dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  }
  ArrayRef<int64_t> small = result.small;
  int64_t T = scores.queries, S = scores.keys;
  if (rank == 4)
    result.shape = result.small;
  else if (rank == 2 || small[0] == 1)
    result.shape = {1, 1, T, S};
  else
    result.shape = {scores.batch, scores.heads, T, S};
  ArrayRef<int64_t> shape = result.shape;
  if (product(small) != product(shape) || small[rank - 2] != T || small[rank - 1] != S ||
      (shape[0] != 1 && shape[0] != scores.batch) || (shape[1] != 1 && shape[1] != scores.heads))
    return std::nullopt;
  if (DenseElementsAttr dense = constantOf(result.source)) {
    result.values = dense.isSplat() ? std::vector<double>(product(shape), valuesOf(dense.resizeSplat(RankedTensorType::get(
                                          {1}, dense.getElementType()))).front())
                                    : repeat(valuesOf(dense), result.dims, small);
    for (double &x : *result.values) {
      if (term.masked) x = (x != 0.0) == term.keep ? 0.0 : *term.masked;
      x = x == 0.0 ? 0.0 : x * term.factor;
    }
    result.dropEqualLeading();
    result.classify();
  }
  return result;
}

// Equal values for all of a batch or all heads are stored once.
void BiasTerm::dropEqualLeading() {
  int64_t plane = shape[2] * shape[3];
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
void BiasTerm::classify() {
  int64_t T = shape[2], S = shape[3];
  bool above = false;
  causal = zeroBelow = zero = true;
  for (int64_t n = 0; n < int64_t(values->size()); ++n) {
    int64_t t = n / S % T, s = n % S;
    double x = (*values)[n];
    if (x != 0.0) zero = false;
    if (s > t + S - T) {
      above = true;
      if (!(x <= maskValue)) causal = false;
    } else if (x != 0.0) {
      zeroBelow = false;
    }
  }
  causal = causal && above;
}

Value BiasTerm::build(OpBuilder &builder, Location loc, ArrayRef<int64_t> common) const {
  auto f32 = [&](ArrayRef<int64_t> s) { return RankedTensorType::get(s, builder.getF32Type()); };
  Value value;
  if (values) {
    SmallVector<float> floats(values->begin(), values->end());
    value = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(f32(shape), ArrayRef<float>(floats)));
  } else {
    value = Expr(builder, loc, source).broadcast(small, dims).reshape(shape).value;
    if (term.masked) {
      auto splat = [&](double x) -> Value {
        return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(f32(shape), builder.getF32FloatAttr(x)));
      };
      Value zeros = splat(0.0), masked = splat(*term.masked * term.factor);
      value = arith::SelectOp::create(builder, loc, value, term.keep ? zeros : masked, term.keep ? masked : zeros);
    } else if (term.factor != 1.0) {
      value = (Expr(builder, loc, value) * term.factor).value;
    }
  }
  SmallVector<int64_t> inner, kept;
  for (int64_t d = 0; d < 4; ++d)
    if (shape[d] == common[d]) {
      inner.push_back(shape[d]);
      kept.push_back(d);
    }
  return Expr(builder, loc, value).reshape(inner).broadcast(common, kept).value;
}

std::optional<ScoreBias> ScoreBias::read(ArrayRef<ScoreTerm> terms, const ScoreShape &scores) {
  ScoreBias result;
  for (const ScoreTerm &term : terms) {
    std::optional<BiasTerm> read = BiasTerm::read(term, scores);
    if (!read) return std::nullopt;
    result.causal |= read->isCausal();
    if (!read->isNothing()) result.terms.push_back(std::move(*read));
  }
  return result;
}

SmallVector<int64_t> ScoreBias::shape() const {
  SmallVector<int64_t> common;
  for (const BiasTerm &term : terms) {
    if (common.empty()) common = llvm::to_vector(term.getShape());
    for (int64_t d : {0, 1}) common[d] = std::max(common[d], term.getShape()[d]);
  }
  return common;
}

Value ScoreBias::build(OpBuilder &builder, Location loc) const {
  SmallVector<int64_t> common = shape();
  Value sum;
  for (const BiasTerm &term : terms) {
    Value tensor = term.build(builder, loc, common);
    sum = sum ? arith::AddFOp::create(builder, loc, sum, tensor).getResult() : tensor;
  }
  return sum;
}

} // namespace msamp::raise
