// Vector-Jacobian products of the Msamp ops. Rules keep to pointwise, broadcast and reduce ops where later phases fuse
// them, and to named ops (gelu_grad, attention_grad, scatter_add) where a kernel of its own is due.
#include "ir/Msamp/Expr.h"

using namespace mlir;

namespace msamp {
namespace {

// What a rule works with: expressions of operands and of result gradients at the builder's place.
struct Rule {
  OpBuilder &builder;
  Location loc;
  ValueRange resultGrads;
  ArrayRef<bool> wanted;
  SmallVectorImpl<Value> &grads;

  Rule(Operation *op, OpBuilder &b, ValueRange resultGrads, ArrayRef<bool> wanted, SmallVectorImpl<Value> &grads)
      : builder(b), loc(op->getLoc()), resultGrads(resultGrads), wanted(wanted), grads(grads) {
    grads.assign(op->getNumOperands(), Value());
  }
  Expr expr(Value v) const { return {builder, loc, v}; }
  bool has(unsigned result) const { return resultGrads[result] != nullptr; }
  Expr dy(unsigned result = 0) const { return expr(resultGrads[result]); }
  bool want(unsigned operand) const { return wanted[operand]; }
  void set(unsigned operand, const Expr &grad) { grads[operand] = grad.value; }
  void add(unsigned operand, const Expr &grad) {
    grads[operand] = grads[operand] ? (expr(grads[operand]) + grad).value : grad.value;
  }
};

SmallVector<int64_t> complement(ArrayRef<int64_t> dims, int64_t rank) {
  SmallVector<int64_t> rest;
  for (int64_t d = 0; d < rank; ++d)
    if (!llvm::is_contained(dims, d))
      rest.push_back(d);
  return rest;
}

// (-second half, first half) of the last dimension.
Expr rotateHalves(const Expr &x) {
  int64_t last = x.rank() - 1, half = x.type().getDimSize(last) / 2;
  Expr first = x.slice(last, 0, half);
  Expr second = -x.slice(last, half, half);
  return x.make<ConcatOp>(x.type(), ValueRange{second.value, first.value}, last);
}

} // namespace

void BroadcastOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                           SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  r.set(0, r.dy().sum(complement(getDims(), r.dy().rank())));
}

void ReduceOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                        SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  Expr x = r.expr(getInput());
  SmallVector<int64_t> shape(x.type().getShape()), kept = complement(getDims(), x.rank());
  if (getKind() == ReduceKind::Sum) {
    r.set(0, r.dy().broadcast(shape, kept));
    return;
  }
  // Elements that tie for the extreme share its gradient.
  Expr extreme = r.expr(getResult()).broadcast(shape, kept);
  Expr hit = x.compare(arith::CmpFPredicate::OEQ, extreme);
  Expr one = x.like(1.0), zero = x.like(0.0);
  Expr count = hit.choose(one, zero).sum(getDims());
  Expr share = (r.dy() / count).broadcast(shape, kept);
  r.set(0, hit.choose(share, zero));
}

void ReshapeOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                         SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  r.set(0, r.dy().reshape(tensorTypeOf(getInput()).getShape()));
}

void TransposeOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                           SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  SmallVector<int64_t> inverse(getPerm().size());
  for (auto [i, p] : llvm::enumerate(getPerm()))
    inverse[p] = i;
  r.set(0, r.dy().transpose(inverse));
}

void SliceOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                       SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  r.set(0, r.dy().make<PadOp>(getInput().getType(), r.dy().value, getStarts(), getStrides(), APFloat(0.0)));
}

void PadOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                     SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  r.set(0, r.dy().make<SliceOp>(getInput().getType(), r.dy().value, getLow(), getStrides()));
}

void ConcatOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                        SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0))
    return;
  int64_t start = 0;
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    int64_t size = tensorTypeOf(input).getDimSize(getDim());
    if (r.want(i))
      r.set(i, r.dy().slice(getDim(), start, size));
    start += size;
  }
}

void GatherOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                        SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  auto table = tensorTypeOf(getTable()), indices = tensorTypeOf(getIndices());
  int64_t axis = getAxis(), depth = indices.getRank();
  Expr dy = r.dy();
  // Bring the looked-up dimensions to the front, sum into a matrix of rows, and undo both.
  SmallVector<int64_t> front, rest = complement({axis}, table.getRank());
  for (int64_t d = 0; d < depth; ++d)
    front.push_back(axis + d);
  for (int64_t d = 0; d < axis; ++d)
    front.push_back(d);
  for (int64_t d = axis + depth; d < dy.rank(); ++d)
    front.push_back(d);
  int64_t rows = table.getDimSize(axis), count = indices.getNumElements(), width = 1;
  SmallVector<int64_t> byRow{rows}, back(table.getRank());
  for (auto [i, d] : llvm::enumerate(rest)) {
    width *= table.getDimSize(d);
    byRow.push_back(table.getDimSize(d));
    back[d] = i + 1;
  }
  back[axis] = 0;
  Expr updates = dy.transpose(front).reshape({count, width});
  Expr flat = r.expr(getIndices()).reshape({count});
  Expr sum = updates.make<ScatterAddOp>(RankedTensorType::get({rows, width}, table.getElementType()), updates.value,
                                        flat.value);
  r.set(0, sum.reshape(byRow).transpose(back));
}

void MatMulOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                        SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0))
    return;
  Value a = getA(), b = getB(), dy = r.dy();
  bool ta = getTransposeA(), tb = getTransposeB();
  auto product = [&](Type type, Value x, Value y, bool tx, bool ty) {
    return r.dy().make<MatMulOp>(type, x, y, tx, ty);
  };
  // d op(A) = dC op(B)^T and d op(B) = op(A)^T dC, transposed where the operand is.
  if (r.want(0))
    r.set(0, ta ? product(a.getType(), b, dy, tb, true) : product(a.getType(), dy, b, false, !tb));
  if (r.want(1))
    r.set(1, tb ? product(b.getType(), dy, a, true, ta) : product(b.getType(), a, dy, !ta, false));
}

void ConvOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                      SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0))
    return;
  Expr dy = r.dy();
  if (r.want(0))
    r.set(0, dy.make<ConvDgradOp>(getX().getType(), dy.value, getFilter(), getWindow(), getGroups()));
  if (r.want(1))
    r.set(1, dy.make<ConvWgradOp>(getFilter().getType(), getX(), dy.value, getWindow(), getGroups()));
}

// It is linear in both operands, and the transpose of conv in the first.
void ConvDgradOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                           SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0))
    return;
  Expr g = r.dy();
  if (r.want(0))
    r.set(0, g.make<ConvOp>(getDY().getType(), g.value, getFilter(), getWindow(), getGroups()));
  if (r.want(1))
    r.set(1, g.make<ConvWgradOp>(getFilter().getType(), g.value, getDY(), getWindow(), getGroups()));
}

void MaxPoolOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                         SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (r.has(0) && r.want(0))
    r.set(0, r.dy().make<MaxPoolGradOp>(getX().getType(), r.dy().value, getTap(), getWindow()));
}

void AvgPoolOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                         SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (r.has(0) && r.want(0))
    r.set(0, r.dy().make<AvgPoolGradOp>(getX().getType(), r.dy().value, getWindow(), getCountPadding()));
}

void LayerNormOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                           SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  Expr x = r.expr(getX());
  SmallVector<int64_t> shape(x.type().getShape());
  double width = shape.back();
  unsigned scaleIndex = 1, shiftIndex = getScale() ? 2 : 1;
  Expr rstd = r.expr(getRstd()).perRow(shape);
  Expr centred = x - r.expr(getMean()).perRow(shape);
  Expr xhat = centred * rstd;
  if (r.has(0)) {
    Expr dy = r.dy(0);
    if (r.want(0)) {
      Expr g = getScale() ? dy * r.expr(getScale()).perColumn(shape) : dy;
      Expr meanG = (g.sumLastDim() * (1.0 / width)).perRow(shape);
      Expr meanGX = ((g * xhat).sumLastDim() * (1.0 / width)).perRow(shape);
      Expr centredG = g - meanG;
      Expr projected = xhat * meanGX;
      r.add(0, (centredG - projected) * rstd);
    }
    if (getScale() && r.want(scaleIndex))
      r.set(scaleIndex, (dy * xhat).sumLeadingDims());
    if (getShift() && r.want(shiftIndex))
      r.set(shiftIndex, dy.sumLeadingDims());
  }
  if (r.has(1) && r.want(0))
    r.add(0, (r.dy(1) * (1.0 / width)).perRow(shape));
  if (r.has(2) && r.want(0)) {
    Expr factor = (r.dy(2) * (-1.0 / width)).perRow(shape);
    Expr slope = xhat * rstd * rstd;
    r.add(0, slope * factor);
  }
}

// Two passes over memory: the sums of each column, and then what depends on them.
void BatchNormOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                           SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  Expr x = r.expr(getX());
  SmallVector<int64_t> shape(x.type().getShape());
  const double perRow = static_cast<double>(shape.back()) / static_cast<double>(x.type().getNumElements());
  Expr mean = r.expr(getMean()).perColumn(shape);
  Expr shifted = r.expr(getVariance()) + getEps().convertToDouble();
  Expr deviation = shifted.make<math::SqrtOp>(shifted.value);
  if (r.has(0)) {
    Expr dy = r.dy(0);
    // Both passes read x, and so does what rebuilds y.
    Expr centred = (x - mean).repeated();
    Expr sum = dy.sumLeadingDims(), projection = (dy * centred).sumLeadingDims();
    if (r.want(0)) {
      Expr factor = r.expr(getScale()) / deviation;
      Expr slope = projection * perRow / (deviation * deviation);
      Expr centredDy = dy - (sum * perRow).perColumn(shape);
      Expr projected = centred * slope.perColumn(shape);
      r.add(0, (centredDy - projected) * factor.perColumn(shape));
    }
    if (r.want(1))
      r.set(1, projection / deviation);
    if (r.want(2))
      r.set(2, sum);
  }
  if (r.has(1) && r.want(0))
    r.add(0, (r.dy(1) * perRow).perColumn(shape));
  if (r.has(2) && r.want(0))
    r.add(0, (x - mean) * (r.dy(2) * (2 * perRow)).perColumn(shape));
}

void RmsNormOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                         SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  Expr x = r.expr(getX());
  SmallVector<int64_t> shape(x.type().getShape());
  double width = shape.back();
  Expr rstd = r.expr(getRstd()).perRow(shape);
  Expr xhat = x * rstd;
  if (r.has(0)) {
    Expr dy = r.dy(0);
    if (r.want(0)) {
      Expr g = getScale() ? dy * r.expr(getScale()).perColumn(shape) : dy;
      Expr meanGX = ((g * xhat).sumLastDim() * (1.0 / width)).perRow(shape);
      Expr projected = xhat * meanGX;
      r.add(0, (g - projected) * rstd);
    }
    if (getScale() && r.want(1))
      r.set(1, (dy * xhat).sumLeadingDims());
  }
  if (r.has(1) && r.want(0)) {
    Expr factor = (r.dy(1) * (-1.0 / width)).perRow(shape);
    Expr slope = xhat * rstd * rstd;
    r.add(0, slope * factor);
  }
}

void SoftmaxOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                         SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  Expr y = r.expr(getY()), dy = r.dy();
  Expr inner = (dy * y).sumLastDim().perRow(y.type().getShape());
  r.set(0, (dy - inner) * y);
}

void GeluOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                      SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  r.set(0, r.dy().make<GeluGradOp>(getX().getType(), r.dy().value, getX(), getTanh()));
}

void SwigluOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                        SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0))
    return;
  Expr gate = r.expr(getGate()), up = r.expr(getUp()), dy = r.dy();
  Expr sigmoid = gate.sigmoid();
  Expr silu = gate * sigmoid;
  if (r.want(0)) {
    // d silu = s (1 + g (1 - s)) = s + silu (1 - s)
    Expr rest = silu * (1.0 - sigmoid);
    Expr slope = sigmoid + rest;
    r.set(0, dy * up * slope);
  }
  if (r.want(1))
    r.set(1, dy * silu);
}

void RotaryOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                        SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0))
    return;
  Expr x = r.expr(getX()), dy = r.dy();
  if (r.want(0))
    r.set(0, dy.make<RotaryOp>(getX().getType(), dy.value, getCos(), getSin(), !getTransposed()));
  if (r.want(1))
    r.set(1, dy * x);
  if (r.want(2))
    r.set(2, getTransposed() ? x * rotateHalves(dy) : dy * rotateHalves(x));
}

void AttentionOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                           SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0))
    return;
  auto grad =
      AttentionGradOp::create(builder, getLoc(), getQ().getType(), getK().getType(), getV().getType(), r.dy().value,
                              getQ(), getK(), getV(), getO(), getLse(), getBias(), getScaleAttr(), getCausalAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (r.want(i))
      operandGrads[i] = grad->getResult(i);
}

void CrossEntropyOp::buildVJP(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                              SmallVectorImpl<Value> &operandGrads) {
  Rule r(*this, builder, resultGrads, wanted, operandGrads);
  if (!r.has(0) || !r.want(0))
    return;
  Expr logits = r.expr(getLogits()), labels = r.expr(getLabels());
  SmallVector<int64_t> shape(logits.type().getShape());
  auto indexType = RankedTensorType::get(shape, labels.type().getElementType());
  Expr shifted = logits - r.expr(getLse()).perRow(shape);
  Expr p = shifted.exp();
  Expr classes = logits.make<IotaOp>(indexType, 1);
  Expr hit = classes.compare(arith::CmpIPredicate::eq, labels.perRow(shape));
  Expr one = p.like(1.0), zero = p.like(0.0);
  Expr onehot = hit.choose(one, zero);
  Expr ignored = labels.like(double(int64_t(getIgnoreIndex())));
  Expr counts = labels.compare(arith::CmpIPredicate::ne, ignored);
  Expr share = (r.dy() / r.expr(getValid())).scalarTo({shape[0]});
  Expr weight = counts.choose(share, share.like(0.0)).perRow(shape);
  r.set(0, (p - onehot) * weight);
}

} // namespace msamp
