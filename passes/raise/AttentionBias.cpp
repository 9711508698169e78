// Joins the masks and biases of attention scores.
#include "passes/raise/AttentionBias.h"

#include "passes/raise/Match.h"

#include <algorithm>

using namespace mlir;

namespace msamp::raise {
namespace {

// At most this is added to scores that are to be left out: exp() of the difference is 0 in FP32.
constexpr float maskValue = -1e4f;

// Values of a constant of floats or booleans.
std::vector<float> valuesOf(DenseElementsAttr dense) {
  std::vector<float> values;
  values.reserve(dense.getNumElements());
  if (dense.getElementType().isF32())
    values.assign(dense.value_begin<float>(), dense.value_end<float>());
  else if (isa<FloatType>(dense.getElementType()))
    for (const APFloat &v : dense.getValues<APFloat>())
      values.push_back(float(v.convertToDouble()));
  else
    for (const APInt &v : dense.getValues<APInt>())
      values.push_back(v.isZero() ? 0.0f : 1.0f);
  return values;
}

int64_t product(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t s : shape)
    n *= s;
  return n;
}

// Operand dimension i of `values` becomes dimension dims[i] of `shape`; the others repeat.
std::vector<float> repeat(std::vector<float> values, ArrayRef<int64_t> dims, ArrayRef<int64_t> shape) {
  if (int64_t(values.size()) == product(shape))
    return values;
  SmallVector<int64_t> strides(shape.size(), 0), index(shape.size(), 0);
  int64_t stride = 1;
  for (int64_t d : llvm::reverse(dims)) {
    strides[d] = stride;
    stride *= shape[d];
  }
  std::vector<float> result(product(shape));
  for (float &x : result) {
    int64_t at = 0;
    for (auto [i, s] : llvm::zip(index, strides))
      at += i * s;
    x = values[at];
    for (int64_t d = int64_t(shape.size()) - 1; d >= 0 && ++index[d] == shape[d]; --d)
      index[d] = 0;
  }
  return result;
}

} // namespace

std::optional<BiasTerm> BiasTerm::read(const ScoreTerm &term, const ScoreShape &scores, BiasCache &cache) {
  BiasTerm result;
  result.term = term;
  auto type = tensorTypeOf(term.value);
  int64_t rank = type.getRank();
  if (rank < 2 || rank > 4)
    return std::nullopt;
  result.small = llvm::to_vector(type.getShape());
  if (auto broadcast = term.value.getDefiningOp<BroadcastOp>()) {
    result.source = broadcast.getInput();
    result.dims = llvm::to_vector(broadcast.getDims());
    for (int64_t d = 0; d + 2 < rank; ++d)
      if (!llvm::is_contained(result.dims, d))
        result.small[d] = 1;
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
    std::vector<int64_t> place(result.dims.begin(), result.dims.end());
    place.insert(place.end(), small.begin(), small.end());
    place.insert(place.end(), shape.begin(), shape.end());
    auto &known = cache[{dense.getAsOpaquePointer(), place, term.masked.value_or(0.0), term.masked ? term.keep : true,
                         term.factor}];
    if (!known) {
      std::vector<float> values;
      if (dense.isSplat())
        values.assign(product(shape),
                      valuesOf(dense.resizeSplat(RankedTensorType::get({1}, dense.getElementType()))).front());
      else
        values = repeat(valuesOf(dense), result.dims, small);
      for (float &x : values) {
        if (term.masked)
          x = (x != 0.0f) == term.keep ? 0.0f : float(*term.masked);
        x = x == 0.0f ? 0.0f : float(x * term.factor);
      }
      known = std::make_shared<ConstantBias>(shape, std::move(values));
    }
    result.constant = known;
    result.shape = known->shape;
  }
  return result;
}

ConstantBias::ConstantBias(ArrayRef<int64_t> full, std::vector<float> all)
    : shape(llvm::to_vector(full)), values(std::move(all)) {
  // Equal values for all of a batch or all heads are stored once.
  int64_t T = shape[2], S = shape[3], plane = T * S;
  auto planeOf = [&](int64_t b, int64_t h) { return values.begin() + (b * shape[1] + h) * plane; };
  bool sameHeads = shape[1] > 1, sameBatch = shape[0] > 1;
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h) {
      sameHeads = sameHeads && std::equal(planeOf(b, h), planeOf(b, h) + plane, planeOf(b, 0));
      sameBatch = sameBatch && std::equal(planeOf(b, h), planeOf(b, h) + plane, planeOf(0, h));
    }
  if (sameHeads || sameBatch) {
    std::vector<float> kept;
    SmallVector<int64_t> smaller{sameBatch ? 1 : shape[0], sameHeads ? 1 : shape[1], T, S};
    for (int64_t b = 0; b < smaller[0]; ++b)
      for (int64_t h = 0; h < smaller[1]; ++h)
        kept.insert(kept.end(), planeOf(b, h), planeOf(b, h) + plane);
    values = std::move(kept);
    shape = smaller;
  }
  // Whether all entries above the diagonal (which ends at the last key of the last query) are masked.
  bool above = false;
  causal = zeroBelow = true;
  for (int64_t row = 0; row < int64_t(values.size()) / std::max<int64_t>(S, 1); ++row) {
    const float *x = values.data() + row * S;
    int64_t end = std::clamp<int64_t>(row % T + S - T + 1, 0, S);
    zeroBelow = zeroBelow && std::all_of(x, x + end, [](float v) { return v == 0.0f; });
    causal = causal && std::all_of(x + end, x + S, [](float v) { return v <= maskValue; });
    above |= end < S;
  }
  causal = causal && above;
  zero = std::all_of(values.begin(), values.end(), [](float v) { return v == 0.0f; });
}

Value BiasTerm::build(OpBuilder &builder, Location loc, ArrayRef<int64_t> common) const {
  auto f32 = [&](ArrayRef<int64_t> s) { return RankedTensorType::get(s, builder.getF32Type()); };
  Value value;
  if (constant) {
    value =
        arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(f32(shape), ArrayRef<float>(constant->values)));
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

std::optional<ScoreBias> ScoreBias::read(ArrayRef<ScoreTerm> terms, const ScoreShape &scores, BiasCache &cache) {
  ScoreBias result;
  for (const ScoreTerm &term : terms) {
    std::optional<BiasTerm> read = BiasTerm::read(term, scores, cache);
    if (!read)
      return std::nullopt;
    result.causal |= read->isCausal();
    if (!read->isNothing())
      result.terms.push_back(std::move(*read));
  }
  return result;
}

SmallVector<int64_t> ScoreBias::shape() const {
  SmallVector<int64_t> common;
  for (const BiasTerm &term : terms) {
    if (common.empty())
      common = llvm::to_vector(term.getShape());
    for (int64_t d : {0, 1})
      common[d] = std::max(common[d], term.getShape()[d]);
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
