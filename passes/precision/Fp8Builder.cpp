// Quantisation by recipe: amax, scale, sites and records as explicit ops.
#include "passes/precision/Fp8Builder.h"

#include "passes/precision/Analysis.h"

using namespace mlir;

namespace msamp::precision {

Fp8Builder::Fp8Builder(ModuleOp module, StringRef recipe)
    : module(module), symbols(module), current(recipe == "current" || recipe == "block") {}

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

//===--- Blocks ---===//

namespace {

int64_t blocksOf(int64_t size) { return llvm::divideCeil(size, scaleBlock); }

// The matrix with zeros up to whole blocks, which change no amax.
Value wholeBlocks(OpBuilder &builder, Location loc, Value x, bool rowsToo) {
  auto type = tensorTypeOf(x);
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  SmallVector<int64_t> shape{rowsToo ? blocksOf(rows) * scaleBlock : rows, blocksOf(columns) * scaleBlock};
  if (shape == type.getShape())
    return x;
  SmallVector<int64_t> low(2, 0), strides(2, 1);
  return PadOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()), x, low, strides, APFloat(0.0));
}

// [R, C] as [R, C / 128, 128], or as [R / 128, 128, C / 128, 128].
Value splitBlocks(OpBuilder &builder, Location loc, Value x, bool square) {
  auto type = tensorTypeOf(x);
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  SmallVector<int64_t> shape{rows, columns / scaleBlock, scaleBlock};
  if (square)
    shape = {rows / scaleBlock, scaleBlock, columns / scaleBlock, scaleBlock};
  return ReshapeOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()), x);
}

// Blocks put together again, without what was added to make them whole.
Value joinBlocks(OpBuilder &builder, Location loc, Value parts, ArrayRef<int64_t> whole, ArrayRef<int64_t> wanted) {
  Type element = tensorTypeOf(parts).getElementType();
  Value joined = ReshapeOp::create(builder, loc, RankedTensorType::get(whole, element), parts);
  if (whole == wanted)
    return joined;
  SmallVector<int64_t> starts(2, 0), strides(2, 1);
  return SliceOp::create(builder, loc, RankedTensorType::get(wanted, element), joined, starts, strides);
}

} // namespace

Quantised Fp8Builder::blockwise(OpBuilder &builder, Location loc, Value x, SiteKind kind, bool transposed) {
  Quantised &known = (transposed ? columns : rows)[{x, static_cast<unsigned>(kind)}];
  if (known.values)
    return known;
  if (transposed) {
    auto type = tensorTypeOf(x);
    auto turned = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
    x = TransposeOp::create(builder, loc, turned, x, ArrayRef<int64_t>{1, 0});
  }
  auto format = formatOf(builder.getContext(), kind);
  Value whole = wholeBlocks(builder, loc, x, false), parts = splitBlocks(builder, loc, whole, false);
  Value largest = amax(builder, loc, parts, {2});
  Value scale = ScaleOfOp::create(builder, loc, largest.getType(), largest, format, 0);
  Value values = QuantizeOp::create(builder, loc, withElement(tensorTypeOf(parts), format), parts, scale);
  values = joinBlocks(builder, loc, values, tensorTypeOf(whole).getShape(), tensorTypeOf(x).getShape());
  return known = {values, scale};
}

Value Fp8Builder::squareScales(OpBuilder &builder, Location loc, Value matrix, Value scale) {
  Value parts = splitBlocks(builder, loc, wholeBlocks(builder, loc, matrix, true), true);
  auto wide = withElement(tensorTypeOf(parts), builder.getF32Type());
  Value widened = arith::ExtFOp::create(builder, loc, wide, parts);
  // The largest stored value is divided instead of each of them: scales are powers of two.
  Value largest = amax(builder, loc, widened, {1, 3});
  Value everywhere = BroadcastOp::create(builder, loc, largest.getType(), scale, ArrayRef<int64_t>{});
  Value divided = arith::DivFOp::create(builder, loc, largest, everywhere);
  return ScaleOfOp::create(builder, loc, divided.getType(), divided, Float8E4M3FNType::get(builder.getContext()), 0);
}

Value Fp8Builder::quantizeSquares(OpBuilder &builder, Location loc, Value matrix, Value scale, Value squares,
                                  llvm::function_ref<void(Operation *)> mark) {
  Value whole = wholeBlocks(builder, loc, matrix, true), parts = splitBlocks(builder, loc, whole, true);
  auto wide = withElement(tensorTypeOf(parts), builder.getF32Type());
  Value widened = arith::ExtFOp::create(builder, loc, wide, parts);
  Value everywhere = BroadcastOp::create(builder, loc, wide, scale, ArrayRef<int64_t>{});
  auto value = arith::DivFOp::create(builder, loc, widened, everywhere);
  auto rowScale = RankedTensorType::get(wide.getShape().drop_back(), builder.getF32Type());
  Value inRows = BroadcastOp::create(builder, loc, rowScale, squares, ArrayRef<int64_t>{0, 2});
  auto e4m3 = Float8E4M3FNType::get(builder.getContext());
  auto quantize = QuantizeOp::create(builder, loc, withElement(wide, e4m3), value, inRows);
  mark(value);
  mark(quantize);
  return joinBlocks(builder, loc, quantize.getResult(), tensorTypeOf(whole).getShape(), tensorTypeOf(matrix).getShape());
}

Operation *Fp8Builder::rowwiseOp(Value x, SiteKind kind) const {
  auto found = rows.find({x, static_cast<unsigned>(kind)});
  return found == rows.end() ? nullptr : found->second.values.getDefiningOp();
}

} // namespace msamp::precision
