// Verifiers and folders of the Msamp ops. Verifiers are local; each message prints the value and the bound it breaks.
#include "ir/Msamp/Msamp.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

#define GET_OP_CLASSES
#include "ir/Msamp/MsampOps.cpp.inc"

namespace msamp {
namespace {

RankedTensorType tensorType(Value v) { return cast<RankedTensorType>(v.getType()); }

bool isIdentity(ArrayRef<int64_t> values) {
  for (auto [i, v] : llvm::enumerate(values))
    if (v != static_cast<int64_t>(i)) return false;
  return true;
}

LogicalResult checkDims(Operation *op, ArrayRef<int64_t> dims, int64_t rank, StringRef what) {
  int64_t previous = -1;
  for (int64_t d : dims) {
    if (d <= previous || d >= rank)
      return op->emitOpError() << what << " [" << dims << "] must ascend strictly within [0, " << rank << ")";
    previous = d;
  }
  return success();
}

LogicalResult sameElements(Operation *op, RankedTensorType a, RankedTensorType b) {
  if (a.getElementType() != b.getElementType())
    return op->emitOpError() << "element type " << a.getElementType() << " became " << b.getElementType();
  return success();
}

// Row statistics have the shape of the tensor without its last dimension.
LogicalResult checkRowStatistics(Operation *op, RankedTensorType x, RankedTensorType stat, StringRef what) {
  if (stat.getShape() != x.getShape().drop_back())
    return op->emitOpError() << what << " has type " << stat << ", expected the shape of " << x
                             << " without its last dimension";
  return success();
}

LogicalResult checkVectorOfLastDim(Operation *op, RankedTensorType x, Value v, StringRef what) {
  if (!v) return success();
  auto t = tensorType(v);
  if (t.getRank() != 1 || t.getDimSize(0) != x.getShape().back())
    return op->emitOpError() << what << " has type " << t << ", expected one value for each of " << x.getShape().back()
                             << " columns";
  return success();
}

} // namespace

LogicalResult GetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto param = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParamAttr());
  if (!param) return emitOpError() << "no msamp.parameter named " << getParam();
  if (param.getTensorType().getShape() != tensorType(getResult()).getShape())
    return emitOpError() << "type " << getResult().getType() << " has not the shape of parameter type " << param.getType();
  return success();
}

LogicalResult TrackOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto param = symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParamAttr());
  if (!param || !param.isStatistic()) return emitOpError() << getParam() << " is no running statistic";
  if (param.getTensorType() != getValue().getType())
    return emitOpError() << "a value of type " << getValue().getType() << " for parameter type " << param.getType();
  return success();
}

LogicalResult BroadcastOp::verify() {
  auto in = tensorType(getInput()), out = tensorType(getResult());
  if (failed(sameElements(*this, in, out))) return failure();
  if (static_cast<int64_t>(getDims().size()) != in.getRank())
    return emitOpError() << getDims().size() << " dims for an operand of rank " << in.getRank();
  if (failed(checkDims(*this, getDims(), out.getRank(), "dims"))) return failure();
  for (auto [i, d] : llvm::enumerate(getDims()))
    if (in.getDimSize(i) != out.getDimSize(d))
      return emitOpError() << "operand dimension " << i << " of size " << in.getDimSize(i) << " became result dimension "
                           << d << " of size " << out.getDimSize(d);
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getResult().getType()) return getInput();
  if (auto dense = dyn_cast_or_null<SplatElementsAttr>(adaptor.getInput()))
    return dense.resizeSplat(cast<ShapedType>(getResult().getType()));
  if (auto inner = getInput().getDefiningOp<BroadcastOp>()) {
    SmallVector<int64_t> dims;
    for (int64_t d : inner.getDims()) dims.push_back(getDims()[d]);
    setDims(dims);
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

LogicalResult ReduceOp::verify() {
  auto in = tensorType(getInput()), out = tensorType(getResult());
  bool narrows = in.getElementType().isF32() && (out.getElementType().isBF16() || out.getElementType().isF16());
  if (!narrows && failed(sameElements(*this, in, out))) return failure();
  if (failed(checkDims(*this, getDims(), in.getRank(), "dims"))) return failure();
  SmallVector<int64_t> shape;
  for (int64_t d = 0; d < in.getRank(); ++d)
    if (!llvm::is_contained(getDims(), d)) shape.push_back(in.getDimSize(d));
  if (ArrayRef<int64_t>(shape) != out.getShape())
    return emitOpError() << "result type " << out << ", expected shape [" << shape << "]";
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto in = tensorType(getInput()), out = tensorType(getResult());
  if (failed(sameElements(*this, in, out))) return failure();
  if (in.getNumElements() != out.getNumElements())
    return emitOpError() << in.getNumElements() << " elements became " << out.getNumElements();
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getResult().getType()) return getInput();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    return dense.reshape(cast<ShapedType>(getResult().getType()));
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

LogicalResult TransposeOp::verify() {
  auto in = tensorType(getInput()), out = tensorType(getResult());
  if (failed(sameElements(*this, in, out))) return failure();
  llvm::SmallBitVector seen(in.getRank());
  if (static_cast<int64_t>(getPerm().size()) != in.getRank() || out.getRank() != in.getRank())
    return emitOpError() << "perm [" << getPerm() << "] for rank " << in.getRank();
  for (auto [i, p] : llvm::enumerate(getPerm())) {
    if (p < 0 || p >= in.getRank() || seen[p]) return emitOpError() << "perm [" << getPerm() << "] is no permutation";
    seen.set(p);
    if (out.getDimSize(i) != in.getDimSize(p))
      return emitOpError() << "result dimension " << i << " is " << out.getDimSize(i) << ", operand dimension " << p
                           << " is " << in.getDimSize(p);
  }
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor adaptor) {
  if (isIdentity(getPerm())) return getInput();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getInput()))
    return splat.resizeSplat(cast<ShapedType>(getResult().getType()));
  if (auto inner = getInput().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> perm;
    for (int64_t p : getPerm()) perm.push_back(inner.getPerm()[p]);
    setPerm(perm);
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

LogicalResult SliceOp::verify() {
  auto in = tensorType(getInput()), out = tensorType(getResult());
  if (failed(sameElements(*this, in, out))) return failure();
  if (out.getRank() != in.getRank() || static_cast<int64_t>(getStarts().size()) != in.getRank() ||
      getStrides().size() != getStarts().size())
    return emitOpError() << "needs a start and a stride for each of " << in.getRank() << " dimensions";
  for (int64_t d = 0; d < in.getRank(); ++d) {
    int64_t start = getStarts()[d], stride = getStrides()[d], size = out.getDimSize(d);
    if (start < 0 || stride < 1 || (size && start + (size - 1) * stride >= in.getDimSize(d)))
      return emitOpError() << "dimension " << d << ": " << size << " elements from " << start << " by " << stride
                           << " leave [0, " << in.getDimSize(d) << ")";
  }
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getResult().getType()) return getInput();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getInput()))
    return splat.resizeSplat(cast<ShapedType>(getResult().getType()));
  return {};
}

LogicalResult PadOp::verify() {
  auto in = tensorType(getInput()), out = tensorType(getResult());
  if (failed(sameElements(*this, in, out))) return failure();
  if (out.getRank() != in.getRank() || static_cast<int64_t>(getLow().size()) != in.getRank() ||
      getStrides().size() != getLow().size())
    return emitOpError() << "needs a low and a stride for each of " << in.getRank() << " dimensions";
  for (int64_t d = 0; d < in.getRank(); ++d)
    if (getLow()[d] < 0 || getStrides()[d] < 1 ||
        getLow()[d] + (in.getDimSize(d) - 1) * getStrides()[d] >= out.getDimSize(d))
      return emitOpError() << "dimension " << d << ": " << in.getDimSize(d) << " elements from " << getLow()[d] << " by "
                           << getStrides()[d] << " leave [0, " << out.getDimSize(d) << ")";
  return success();
}

LogicalResult ConcatOp::verify() {
  auto out = tensorType(getResult());
  int64_t dim = getDim(), total = 0;
  if (getInputs().empty()) return emitOpError() << "needs an operand";
  if (dim < 0 || dim >= out.getRank()) return emitOpError() << "dim " << dim << " of rank " << out.getRank();
  for (Value v : getInputs()) {
    auto in = tensorType(v);
    if (failed(sameElements(*this, in, out))) return failure();
    SmallVector<int64_t> expected(out.getShape());
    if (in.getRank() == out.getRank()) expected[dim] = in.getDimSize(dim);
    if (in.getShape() != ArrayRef<int64_t>(expected))
      return emitOpError() << "operand type " << in << " does not fit result type " << out << " along dimension " << dim;
    total += in.getDimSize(dim);
  }
  if (total != out.getDimSize(dim))
    return emitOpError() << "operands have " << total << " along dimension " << dim << ", the result " << out.getDimSize(dim);
  return success();
}

LogicalResult GatherOp::verify() {
  auto table = tensorType(getTable()), indices = tensorType(getIndices()), out = tensorType(getResult());
  int64_t axis = getAxis();
  if (axis < 0 || axis >= table.getRank()) return emitOpError() << "axis " << axis << " of rank " << table.getRank();
  SmallVector<int64_t> shape(table.getShape().take_front(axis));
  llvm::append_range(shape, indices.getShape());
  llvm::append_range(shape, table.getShape().drop_front(axis + 1));
  if (ArrayRef<int64_t>(shape) != out.getShape())
    return emitOpError() << "result type " << out << ", expected shape [" << shape << "]";
  return sameElements(*this, table, out);
}

namespace {
LogicalResult checkMatMul(Operation *op, RankedTensorType a, RankedTensorType b, RankedTensorType c, bool ta, bool tb) {
  int64_t rank = a.getRank();
  if (rank < 2 || b.getRank() != rank || c.getRank() != rank)
    return op->emitOpError() << "ranks of " << a << ", " << b << " and " << c << " must be equal and at least 2";
  if (a.getShape().drop_back(2) != b.getShape().drop_back(2) || a.getShape().drop_back(2) != c.getShape().drop_back(2))
    return op->emitOpError() << "batch dimensions of " << a << ", " << b << " and " << c << " differ";
  int64_t m = a.getDimSize(rank - (ta ? 1 : 2)), k = a.getDimSize(rank - (ta ? 2 : 1));
  int64_t kb = b.getDimSize(rank - (tb ? 1 : 2)), n = b.getDimSize(rank - (tb ? 2 : 1));
  if (k != kb) return op->emitOpError() << "inner dimensions " << k << " of " << a << " and " << kb << " of " << b << " differ";
  if (c.getDimSize(rank - 2) != m || c.getDimSize(rank - 1) != n)
    return op->emitOpError() << "result type " << c << ", expected " << m << " x " << n;
  return success();
}

LogicalResult checkAdded(Operation *op, RankedTensorType c, Value addend, Value bias) {
  if (addend && tensorType(addend).getShape() != c.getShape())
    return op->emitOpError() << "addend of type " << addend.getType() << " for a result of type " << c;
  if (bias && (tensorType(bias).getRank() != 1 || tensorType(bias).getDimSize(0) != c.getShape().back()))
    return op->emitOpError() << "bias of type " << bias.getType() << ", expected " << c.getShape().back() << " values";
  return success();
}
} // namespace

LogicalResult MatMulOp::verify() {
  if (failed(checkAdded(*this, tensorType(getResult()), getAddend(), getBias()))) return failure();
  return checkMatMul(*this, tensorType(getA()), tensorType(getB()), tensorType(getResult()), getTransposeA(), getTransposeB());
}

LogicalResult ScaledMatMulOp::verify() {
  auto a = tensorType(getA()), b = tensorType(getB()), c = tensorType(getResult());
  if (a.getRank() != 2) return emitOpError() << "operand of rank " << a.getRank() << ", expected 2";
  for (auto t : {a, b})
    if (t.getElementTypeBitWidth() != 8) return emitOpError() << "operand type " << t << " is not FP8";
  if (failed(checkMatMul(*this, a, b, c, getTransposeA(), getTransposeB()))) return failure();
  if (failed(checkAdded(*this, c, getAddend(), getBias()))) return failure();
  bool quantised = c.getElementTypeBitWidth() == 8;
  if (quantised != bool(getScaleOut()) || quantised != bool(getAmax()))
    return emitOpError() << "a result of type " << c << " with" << (getScaleOut() ? "" : "out") << " scale_out and with"
                         << (getAmax() ? "" : "out") << " amax: an FP8 result has both, any other neither";
  auto blocks = [](int64_t size) { return (size + scaleBlock - 1) / scaleBlock; };
  int64_t depth = a.getDimSize(getTransposeA() ? 0 : 1);
  bool byBlocks = tensorType(getScaleA()).getRank() == 2 || tensorType(getScaleB()).getRank() == 2;
  for (auto [scale, dim] : {std::pair(getScaleA(), 0), std::pair(getScaleB(), 1)}) {
    auto t = tensorType(scale);
    int64_t extent = c.getDimSize(dim);
    if (byBlocks) {
      bool fits = t.getRank() == 2 && t.getDimSize(1) == blocks(depth) &&
                  (t.getDimSize(0) == extent || t.getDimSize(0) == blocks(extent));
      if (t.getRank() != 0 && !fits)
        return emitOpError() << "scale type " << t << " of blocks, expected rank 0 or " << extent << " or " << blocks(extent)
                             << " by " << blocks(depth) << " values";
      continue;
    }
    if (t.getRank() > 1 || (t.getRank() == 1 && t.getDimSize(0) != c.getDimSize(dim)))
      return emitOpError() << "scale type " << t << ", expected rank 0 or " << c.getDimSize(dim) << " values";
  }
  return success();
}

LogicalResult LayerNormOp::verify() {
  auto x = tensorType(getX());
  if (x.getRank() < 1) return emitOpError() << "operand of rank 0";
  if (failed(checkVectorOfLastDim(*this, x, getScale(), "scale")) || failed(checkVectorOfLastDim(*this, x, getShift(), "shift")) ||
      failed(checkRowStatistics(*this, x, tensorType(getMean()), "mean")) ||
      failed(checkRowStatistics(*this, x, tensorType(getRstd()), "rstd")))
    return failure();
  if (tensorType(getY()).getShape() != x.getShape()) return emitOpError() << "y and x differ in shape";
  return success();
}

LogicalResult RmsNormOp::verify() {
  auto x = tensorType(getX());
  if (x.getRank() < 1) return emitOpError() << "operand of rank 0";
  if (failed(checkVectorOfLastDim(*this, x, getScale(), "scale")) ||
      failed(checkRowStatistics(*this, x, tensorType(getRstd()), "rstd")))
    return failure();
  if (tensorType(getY()).getShape() != x.getShape()) return emitOpError() << "y and x differ in shape";
  return success();
}

LogicalResult BatchNormOp::verify() {
  auto x = tensorType(getX());
  if (x.getRank() < 2) return emitOpError() << "operand of rank " << x.getRank() << ", expected rows of columns";
  if (failed(checkVectorOfLastDim(*this, x, getScale(), "scale")) || failed(checkVectorOfLastDim(*this, x, getShift(), "shift")) ||
      failed(checkVectorOfLastDim(*this, x, getMean(), "mean")) ||
      failed(checkVectorOfLastDim(*this, x, getVariance(), "variance")))
    return failure();
  if (tensorType(getY()).getShape() != x.getShape()) return emitOpError() << "y and x differ in shape";
  return success();
}

LogicalResult AttentionOp::verify() {
  auto q = tensorType(getQ()), k = tensorType(getK()), v = tensorType(getV()), o = tensorType(getO()), lse = tensorType(getLse());
  if (q.getRank() != 4 || k.getRank() != 4 || v.getRank() != 4 || o.getRank() != 4)
    return emitOpError() << "q, k, v and o must be [batch, tokens, heads, width]";
  int64_t B = q.getDimSize(0), T = q.getDimSize(1), H = q.getDimSize(2), D = q.getDimSize(3);
  int64_t S = k.getDimSize(1), G = k.getDimSize(2);
  if (k.getDimSize(0) != B || k.getDimSize(3) != D || v.getDimSize(0) != B || v.getDimSize(1) != S || v.getDimSize(2) != G)
    return emitOpError() << "k " << k << " and v " << v << " do not fit q " << q;
  if (G == 0 || H % G) return emitOpError() << H << " heads are no multiple of " << G << " groups";
  if (o.getShape() != ArrayRef<int64_t>({B, T, H, v.getDimSize(3)})) return emitOpError() << "o has type " << o;
  if (lse.getShape() != ArrayRef<int64_t>({B, H, T})) return emitOpError() << "lse has type " << lse;
  if (getBias()) {
    auto b = tensorType(getBias());
    if (b.getRank() != 4 || (b.getDimSize(0) != 1 && b.getDimSize(0) != B) || (b.getDimSize(1) != 1 && b.getDimSize(1) != H) ||
        b.getDimSize(2) != T || b.getDimSize(3) != S)
      return emitOpError() << "bias type " << b << ", expected [1 or " << B << ", 1 or " << H << ", " << T << ", " << S << "]";
  }
  return success();
}

LogicalResult CrossEntropyOp::verify() {
  auto x = tensorType(getLogits()), labels = tensorType(getLabels());
  if (x.getRank() != 2 || labels.getRank() != 1 || labels.getDimSize(0) != x.getDimSize(0))
    return emitOpError() << "logits " << x << " and labels " << labels << ", expected [rows, classes] and [rows]";
  if (tensorType(getLoss()).getRank() != 0 || tensorType(getValid()).getRank() != 0)
    return emitOpError() << "loss and valid must have rank 0";
  return checkRowStatistics(*this, x, tensorType(getLse()), "lse");
}

LogicalResult QuantizeOp::verify() {
  auto x = tensorType(getX()), scale = tensorType(getScale()), out = tensorType(getResult());
  if (x.getShape() != out.getShape()) return emitOpError() << "result type " << out << " has not the shape of " << x;
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(out.getElementType()))
    return emitOpError() << "result type " << out << ", expected elements of f8E4M3FN or f8E5M2";
  if (scale.getRank() != 0 && scale.getShape() != x.getShape().drop_back())
    return emitOpError() << "scale type " << scale << ", expected rank 0 or the shape of " << x << " without its last dimension";
  return success();
}

} // namespace msamp
