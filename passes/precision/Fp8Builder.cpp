// Quantisation by recipe: amax, scale, sites and records as explicit ops.
#include "passes/precision/Fp8Builder.h"

#include "passes/precision/Analysis.h"

using namespace mlir;

namespace msamp::precision {

Fp8Builder::Fp8Builder(ModuleOp module, StringRef recipe)
    : module(module), symbols(module), current(recipe == "current") {}

FloatType Fp8Builder::formatOf(MLIRContext *context, SiteKind kind) {
  if (kind == SiteKind::ActivationGrad)
    return Float8E5M2Type::get(context);
  return Float8E4M3FNType::get(context);
}

Value Fp8Builder::amax(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> dims) {
  auto type = tensorTypeOf(x);
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (!llvm::is_contained(dims, d))
      shape.push_back(type.getDimSize(d));
  Value magnitude = math::AbsFOp::create(builder, loc, x);
  return ReduceOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()), ReduceKind::Max, magnitude,
                          dims);
}

StringRef Fp8Builder::newSite(StringRef name, SiteKind kind) {
  OpBuilder builder(module.getContext());
  auto step = symbols.lookup("step");
  // A parameter used at several places has a site a place.
  std::string unique = name.str();
  for (int i = 1; symbols.lookup(unique); ++i)
    unique = (name + "." + Twine(i)).str();
  builder.setInsertionPoint(step);
  int64_t margin = 0;
  if (auto margins = module->getAttrOfType<DenseI64ArrayAttr>("msamp.margins"))
    margin = margins.asArrayRef()[static_cast<size_t>(kind)];
  auto site = SiteOp::create(builder, step->getLoc(), unique, kind, formatOf(module.getContext(), kind), margin);
  symbols.insert(site, step->getIterator());
  return site.getSymName();
}

Quantised Fp8Builder::withScale(OpBuilder &builder, Location loc, Value x, const TensorScale &scale, SiteKind kind) {
  auto type = tensorTypeOf(x);
  Value factor = scale.scale;
  if (!scale.site.empty())
    factor = SiteScaleOp::create(builder, loc, RankedTensorType::get({}, builder.getF32Type()), scale.site);
  Value values = QuantizeOp::create(builder, loc, withElement(type, formatOf(builder.getContext(), kind)), x, factor);
  return tensors[{x, static_cast<unsigned>(kind)}] = {values, factor};
}

Quantised Fp8Builder::tensorwise(OpBuilder &builder, Location loc, Value x, StringRef name, SiteKind kind) {
  Key key{x, static_cast<unsigned>(kind)};
  if (auto found = tensors.find(key); found != tensors.end())
    return found->second;
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, tensorTypeOf(x).getRank()));
  Value largest = amax(builder, loc, x, all);
  TensorScale scale;
  if (current) {
    auto format = formatOf(builder.getContext(), kind);
    scale.scale = ScaleOfOp::create(builder, loc, largest.getType(), largest, format, 0);
  } else {
    scale.site = newSite(name, kind);
    RecordAmaxOp::create(builder, loc, scale.site, largest);
  }
  scales[key] = scale;
  return withScale(builder, loc, x, scale, kind);
}

Quantised Fp8Builder::tensorwiseLike(OpBuilder &builder, Location loc, Value x, Value original, StringRef name,
                                     SiteKind kind) {
  auto index = static_cast<unsigned>(kind);
  if (auto found = tensors.find({x, index}); found != tensors.end())
    return found->second;
  auto known = scales.find({original, index});
  if (known == scales.end())
    return tensorwise(builder, loc, x, name, kind);
  return withScale(builder, loc, x, known->second, kind);
}

Quantised Fp8Builder::rowwise(OpBuilder &builder, Location loc, Value x, SiteKind kind) {
  Key key{x, static_cast<unsigned>(kind)};
  if (auto found = rows.find(key); found != rows.end())
    return found->second;
  auto format = formatOf(builder.getContext(), kind);
  auto type = tensorTypeOf(x);
  Value largest = amax(builder, loc, x, {type.getRank() - 1});
  Value scale = ScaleOfOp::create(builder, loc, largest.getType(), largest, format, 0);
  Value values = QuantizeOp::create(builder, loc, withElement(type, format), x, scale);
  return rows[key] = {values, scale};
}

Operation *Fp8Builder::rowwiseOp(Value x, SiteKind kind) const {
  auto found = rows.find({x, static_cast<unsigned>(kind)});
  return found == rows.end() ? nullptr : found->second.values.getDefiningOp();
}

} // namespace msamp::precision
