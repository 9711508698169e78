// Gradient sums: balanced addition, and concatenation where the parts are disjoint slices.
#include "passes/autodiff/Gradients.h"

#include "ir/Msamp/Expr.h"

using namespace mlir;

namespace msamp::autodiff {

Location gradientLoc(Location node) {
  MLIRContext *context = node.getContext();
  return FusedLoc::get(context, {node}, StringAttr::get(context, "autodiff"));
}

namespace {

// A gradient that is zero outside of [start, start + size) along one dimension.
struct Part {
  int64_t start, size;
  Value value;
};

// The dimension along which a pad of a slice's gradient adds zeros; none if that is not exactly one, or strided.
std::optional<int64_t> paddedDim(PadOp pad) {
  auto in = tensorTypeOf(pad.getInput()), out = tensorTypeOf(pad.getResult());
  std::optional<int64_t> dim;
  for (int64_t d = 0; d < in.getRank(); ++d) {
    if (in.getDimSize(d) == out.getDimSize(d))
      continue;
    if (dim || pad.getStrides()[d] != 1)
      return std::nullopt;
    dim = d;
  }
  return pad.getValue().isZero() ? dim : std::nullopt;
}

// Replaces pads that do not overlap, along the dimension most of them share, by one concatenation: instead of adding
// tensors that are mostly zero. Holes are filled with zeros.
void concatenatePads(OpBuilder &builder, SmallVectorImpl<Value> &terms, Location loc) {
  llvm::SmallDenseMap<int64_t, unsigned> byDim;
  for (Value v : terms)
    if (auto pad = v.getDefiningOp<PadOp>())
      if (auto dim = paddedDim(pad))
        ++byDim[*dim];
  int64_t best = -1;
  for (auto [dim, count] : byDim)
    if (count > 1 && (best < 0 || count > byDim[best] || (count == byDim[best] && dim < best)))
      best = dim;
  if (best < 0)
    return;

  SmallVector<Part> parts;
  SmallVector<Value> rest;
  for (Value v : terms) {
    auto pad = v.getDefiningOp<PadOp>();
    if (!pad || paddedDim(pad) != std::optional(best)) {
      rest.push_back(v);
      continue;
    }
    Part part{pad.getLow()[best], tensorTypeOf(pad.getInput()).getDimSize(best), pad.getInput()};
    bool overlaps = llvm::any_of(parts, [&](const Part &other) {
      return part.start < other.start + other.size && other.start < part.start + part.size;
    });
    if (overlaps)
      rest.push_back(v);
    else
      parts.push_back(part);
  }
  if (parts.size() < 2)
    return;
  llvm::sort(parts, [](const Part &a, const Part &b) { return a.start < b.start; });

  auto type = tensorTypeOf(terms.front());
  SmallVector<Value> pieces;
  int64_t end = 0;
  auto fill = [&](int64_t until) {
    if (until == end)
      return;
    SmallVector<int64_t> shape(type.getShape());
    shape[best] = until - end;
    auto hole = RankedTensorType::get(shape, type.getElementType());
    auto zeros = DenseElementsAttr::get(hole, builder.getZeroAttr(type.getElementType()));
    pieces.push_back(arith::ConstantOp::create(builder, loc, zeros));
  };
  for (const Part &part : parts) {
    fill(part.start);
    pieces.push_back(part.value);
    end = part.start + part.size;
  }
  fill(type.getDimSize(best));
  terms.assign(1, ConcatOp::create(builder, loc, type, pieces, best));
  llvm::append_range(terms, rest);
}

} // namespace

Value GradientSums::balanced(ArrayRef<Value> terms, Location loc) {
  if (terms.size() == 1)
    return terms.front();
  size_t half = terms.size() / 2;
  Value left = balanced(terms.take_front(half), loc);
  Value right = balanced(terms.drop_front(half), loc);
  return arith::AddFOp::create(builder, loc, left, right);
}

Value GradientSums::take(Value value) {
  auto found = parts.find(value);
  if (found == parts.end())
    return {};
  SmallVector<Value> terms = llvm::to_vector(found->second);
  parts.erase(found);
  Location loc = gradientLoc(value.getLoc());
  concatenatePads(builder, terms, loc);
  return balanced(terms, loc);
}

} // namespace msamp::autodiff
