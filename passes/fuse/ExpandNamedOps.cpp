// Writes named ops as the primitive ops that kernels compute. All math is in FP32.
#include "passes/fuse/ClusterDomain.h"
#include "passes/fuse/Passes.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numbers>

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_EXPANDNAMEDOPS
#include "passes/fuse/Passes.h.inc"
namespace {

// Builds primitive ops at one location; every op is a statement of its own, so that their order is fixed.
class Emitter {
public:
  Emitter(OpBuilder &b, Location loc) : b(b), loc(loc) {}

  static RankedTensorType typeOf(Value v) { return cast<RankedTensorType>(v.getType()); }
  Value constant(RankedTensorType type, double value) {
    auto attr = DenseElementsAttr::get(type, b.getFloatAttr(type.getElementType(), value));
    return arith::ConstantOp::create(b, loc, attr);
  }
  Value constantLike(Value v, double value) { return constant(typeOf(v), value); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value add(Value x, double y) { return add(x, constantLike(x, y)); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value mul(Value x, double y) { return mul(x, constantLike(x, y)); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value exp(Value x) { return math::ExpOp::create(b, loc, x); }
  Value exp2(Value x) { return math::Exp2Op::create(b, loc, x); }
  Value log(Value x) { return math::LogOp::create(b, loc, x); }
  // x / (1 + power); the sum is known to be harmless, so a product with its reciprocal will do.
  Value logistic(Value x, Value power) {
    Value denominator = add(power, 1);
    return arith::DivFOp::create(b, loc, x, denominator, arith::FastMathFlags::arcp);
  }
  Value erf(Value x) { return math::ErfOp::create(b, loc, x); }
  Value sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }
  Value inverse(Value x) {
    Value one = constantLike(x, 1);
    return div(one, x);
  }
  // 1 / sqrt(x + eps)
  Value inverseRoot(Value x, double eps) {
    Value shifted = add(x, eps);
    return inverse(sqrt(shifted));
  }
  Value neg(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value f32(Value x) {
    auto type = typeOf(x);
    if (type.getElementType().isF32())
      return x;
    return arith::ExtFOp::create(b, loc, type.clone(b.getF32Type()), x);
  }
  Value to(Value x, Type type) {
    Type element = cast<RankedTensorType>(type).getElementType();
    if (typeOf(x).getElementType() == element)
      return x;
    return arith::TruncFOp::create(b, loc, typeOf(x).clone(element), x);
  }
  Value reduce(ReduceKind kind, Value x, ArrayRef<int64_t> dims) {
    auto type = typeOf(x);
    SmallVector<int64_t> shape;
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (!llvm::is_contained(dims, d))
        shape.push_back(type.getDimSize(d));
    return ReduceOp::create(b, loc, RankedTensorType::get(shape, type.getElementType()), kind, x, dims);
  }
  Value reduceLast(ReduceKind kind, Value x) { return reduce(kind, x, {typeOf(x).getRank() - 1}); }
  Value broadcast(Value x, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
    return BroadcastOp::create(b, loc, RankedTensorType::get(shape, typeOf(x).getElementType()), x, dims);
  }
  // A value a row, repeated along the last dimension of `like`.
  Value acrossRow(Value x, Value like) {
    SmallVector<int64_t> dims(typeOf(x).getRank());
    for (auto [i, d] : llvm::enumerate(dims))
      d = i;
    return broadcast(x, typeOf(like).getShape(), dims);
  }
  // A value a column, repeated for all rows of `like`.
  Value downColumns(Value x, Value like) { return broadcast(x, typeOf(like).getShape(), {typeOf(like).getRank() - 1}); }

  // The part of the last dimension from `start` on with `size` values; slices move to the source of widenings and
  // broadcasts, so that they are parts of what is read, not of what is computed.
  Value sliceLast(Value x, int64_t start, int64_t size) {
    auto type = typeOf(x);
    if (auto ext = x.getDefiningOp<arith::ExtFOp>()) {
      Value part = sliceLast(ext.getIn(), start, size);
      return arith::ExtFOp::create(b, loc, typeOf(part).clone(type.getElementType()), part);
    }
    SmallVector<int64_t> shape(type.getShape());
    shape.back() = size;
    if (auto bc = x.getDefiningOp<BroadcastOp>();
        bc && !bc.getDims().empty() && bc.getDims().back() == type.getRank() - 1) {
      Value part = sliceLast(bc.getInput(), start, size);
      return broadcast(part, shape, SmallVector<int64_t>(bc.getDims()));
    }
    SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
    starts.back() = start;
    return SliceOp::create(b, loc, type.clone(shape), x, starts, strides);
  }

  OpBuilder &b;
  Location loc;
};

constexpr double geluCubic = 0.044715;
const double geluSqrt2OverPi = std::sqrt(2 / std::numbers::pi);

void replace(Operation *op, ValueRange values) {
  op->replaceAllUsesWith(values);
  op->erase();
}

void expand(LayerNormOp op, Emitter e) {
  Value x = e.f32(op.getX());
  double inverse = 1.0 / Emitter::typeOf(x).getShape().back();
  Value sum = e.reduceLast(ReduceKind::Sum, x);
  Value mean = e.mul(sum, inverse);
  Value meanRow = e.acrossRow(mean, x);
  Value centred = e.sub(x, meanRow);
  Value square = e.mul(centred, centred);
  Value squares = e.reduceLast(ReduceKind::Sum, square);
  Value variance = e.mul(squares, inverse);
  Value rstd = e.inverseRoot(variance, op.getEps().convertToDouble());
  Value rstdRow = e.acrossRow(rstd, x);
  Value y = e.mul(centred, rstdRow);
  if (op.getScale()) {
    Value scale = e.downColumns(e.f32(op.getScale()), x);
    y = e.mul(y, scale);
  }
  if (op.getShift()) {
    Value shift = e.downColumns(e.f32(op.getShift()), x);
    y = e.add(y, shift);
  }
  replace(op, {e.to(y, op.getY().getType()), mean, rstd});
}

void expand(RmsNormOp op, Emitter e) {
  Value x = e.f32(op.getX());
  Value square = e.mul(x, x);
  Value squares = e.reduceLast(ReduceKind::Sum, square);
  Value meanSquare = e.mul(squares, 1.0 / Emitter::typeOf(x).getShape().back());
  Value rstd = e.inverseRoot(meanSquare, op.getEps().convertToDouble());
  Value rstdRow = e.acrossRow(rstd, x);
  Value y = e.mul(x, rstdRow);
  if (op.getScale()) {
    Value scale = e.downColumns(e.f32(op.getScale()), x);
    y = e.mul(y, scale);
  }
  replace(op, {e.to(y, op.getY().getType()), rstd});
}

// One pass for both statistics. The squares are of distances from the first row, not from 0: of values that lie far
// from it the variance would be the small difference of two large sums.
void expand(BatchNormOp op, Emitter e) {
  Value x = e.f32(op.getX());
  auto type = Emitter::typeOf(x);
  const int64_t width = type.getShape().back();
  const double inverse = static_cast<double>(width) / static_cast<double>(type.getNumElements());
  SmallVector<int64_t> rows, one(type.getRank(), 1), starts(type.getRank(), 0), strides(type.getRank(), 1);
  for (int64_t d = 0; d + 1 < type.getRank(); ++d)
    rows.push_back(d);
  one.back() = width;
  Value stored = op.getX(); // a part of what is read, not of what is computed
  while (auto widening = stored.getDefiningOp<arith::ExtFOp>())
    stored = widening.getIn();
  Value firstRow = SliceOp::create(e.b, e.loc, Emitter::typeOf(stored).clone(one), stored, starts, strides);
  firstRow.getDefiningOp()->setAttr(inMemoryAttr, e.b.getUnitAttr());
  Value columns = ReshapeOp::create(
      e.b, e.loc, RankedTensorType::get({width}, Emitter::typeOf(firstRow).getElementType()), firstRow);
  Value first = e.f32(columns);
  Value distance = e.sub(x, e.downColumns(first, x));
  Value sum = e.reduce(ReduceKind::Sum, distance, rows);
  Value square = e.mul(distance, distance);
  Value squares = e.reduce(ReduceKind::Sum, square, rows);
  Value meanDistance = e.mul(sum, inverse);
  Value mean = e.add(first, meanDistance);
  Value meanSquare = e.mul(squares, inverse);
  Value squaredMean = e.mul(meanDistance, meanDistance);
  Value difference = e.sub(meanSquare, squaredMean);
  Value zero = e.constantLike(difference, 0);
  Value variance = arith::MaximumFOp::create(e.b, e.loc, difference, zero);
  Value shifted = e.add(variance, op.getEps().convertToDouble());
  Value deviation = e.sqrt(shifted);
  Value factor = e.div(e.f32(op.getScale()), deviation);
  Value centred = e.sub(x, e.downColumns(mean, x));
  Value scaled = e.mul(centred, e.downColumns(factor, x));
  Value y = e.add(scaled, e.downColumns(e.f32(op.getShift()), x));
  replace(op, {e.to(y, op.getY().getType()), mean, variance});
}

void expand(SoftmaxOp op, Emitter e) {
  Value x = e.f32(op.getX());
  Value most = e.reduceLast(ReduceKind::Max, x);
  Value mostRow = e.acrossRow(most, x);
  Value shifted = e.sub(x, mostRow);
  Value exps = e.exp(shifted);
  Value sum = e.reduceLast(ReduceKind::Sum, exps);
  Value inverse = e.inverse(sum);
  Value inverseRow = e.acrossRow(inverse, x);
  Value y = e.mul(exps, inverseRow);
  replace(op, {e.to(y, op.getY().getType())});
}

// The approximate form: x (1 + tanh u) / 2 = x s(2 u) with the logistic function s and u = sqrt(2/pi) (x + 0.044715 x^3).
struct GeluTanh {
  Value square, s;
  GeluTanh(Emitter &e, Value x) {
    constexpr double log2e = std::numbers::log2e;
    square = e.mul(x, x);
    Value cubic = e.mul(square, -2 * log2e * geluCubic * geluSqrt2OverPi);
    Value factor = e.add(cubic, -2 * log2e * geluSqrt2OverPi);
    Value exponent = e.mul(x, factor);
    Value power = e.exp2(exponent);
    Value one = e.constantLike(x, 1);
    s = e.logistic(one, power);
  }
};

// The normal distribution function Phi(x).
Value normalCdf(Emitter &e, Value x) {
  Value scaled = e.mul(x, std::numbers::sqrt2 / 2);
  Value erf = e.erf(scaled);
  Value half = e.mul(erf, 0.5);
  return e.add(half, 0.5);
}

void expand(GeluOp op, Emitter e) {
  Value x = e.f32(op.getX()), y;
  if (op.getTanh()) {
    GeluTanh gelu(e, x);
    y = e.mul(x, gelu.s);
  } else {
    Value cdf = normalCdf(e, x);
    y = e.mul(x, cdf);
  }
  replace(op, {e.to(y, op.getY().getType())});
}

void expand(GeluGradOp op, Emitter e) {
  Value x = e.f32(op.getX()), dy = e.f32(op.getDy()), slope;
  if (op.getTanh()) {
    // s + x s (1 - s) 2 du/dx, du/dx = sqrt(2/pi) (1 + 3 * 0.044715 x^2)
    GeluTanh gelu(e, x);
    Value squareOfS = e.mul(gelu.s, gelu.s);
    Value change = e.sub(gelu.s, squareOfS);
    Value scaled = e.mul(x, change);
    Value inner = e.mul(gelu.square, 6 * geluCubic * geluSqrt2OverPi);
    Value slopeOfExponent = e.add(inner, 2 * geluSqrt2OverPi);
    Value second = e.mul(scaled, slopeOfExponent);
    slope = e.add(gelu.s, second);
  } else {
    // Phi(x) + x phi(x), phi the normal density
    Value cdf = normalCdf(e, x);
    Value square = e.mul(x, x);
    Value exponent = e.mul(square, -0.5);
    Value power = e.exp(exponent);
    Value density = e.mul(power, 1 / std::sqrt(2 * std::numbers::pi));
    Value second = e.mul(x, density);
    slope = e.add(cdf, second);
  }
  Value dx = e.mul(dy, slope);
  replace(op, {e.to(dx, op.getDx().getType())});
}

void expand(SwigluOp op, Emitter e) {
  Value gate = e.f32(op.getGate()), up = e.f32(op.getUp());
  Value negative = e.neg(gate);
  Value power = e.exp(negative);
  Value silu = e.logistic(gate, power);
  Value y = e.mul(silu, up);
  replace(op, {e.to(y, op.getY().getType())});
}

void expand(RotaryOp op, Emitter e) {
  Value x = e.f32(op.getX());
  int64_t half = Emitter::typeOf(x).getShape().back() / 2;
  Value x1 = e.sliceLast(x, 0, half), x2 = e.sliceLast(x, half, half);
  Value cos1 = e.sliceLast(op.getCos(), 0, half), cos2 = e.sliceLast(op.getCos(), half, half);
  Value sin1 = e.sliceLast(op.getSin(), 0, half), sin2 = e.sliceLast(op.getSin(), half, half);
  Value first = e.mul(x1, cos1), second = e.mul(x2, cos2), y1, y2;
  if (op.getTransposed()) {
    Value a = e.mul(x2, sin2), c = e.mul(x1, sin1);
    y1 = e.add(first, a);
    y2 = e.sub(second, c);
  } else {
    Value a = e.mul(x2, sin1), c = e.mul(x1, sin2);
    y1 = e.sub(first, a);
    y2 = e.add(second, c);
  }
  // What only narrows the result narrows the halves instead, so that the concat is what is stored.
  Type stored = op.getY().getType();
  arith::TruncFOp narrowing;
  if (op.getY().hasOneUse())
    narrowing = dyn_cast<arith::TruncFOp>(*op.getY().getUsers().begin());
  if (narrowing)
    stored = narrowing.getType();
  y1 = e.to(y1, stored), y2 = e.to(y2, stored);
  SmallVector<Value> halves = {y1, y2};
  Value y = ConcatOp::create(e.b, e.loc, stored, halves, Emitter::typeOf(x).getRank() - 1);
  if (narrowing) {
    replace(narrowing, {y});
    op->erase();
    return;
  }
  replace(op, {y});
}

void expand(CrossEntropyOp op, Emitter e) {
  Value x = e.f32(op.getLogits());
  auto type = Emitter::typeOf(x);
  auto labelType = Emitter::typeOf(op.getLabels());
  Value most = e.reduceLast(ReduceKind::Max, x);
  Value mostRow = e.acrossRow(most, x);
  Value shifted = e.sub(x, mostRow);
  Value exps = e.exp(shifted);
  Value sum = e.reduceLast(ReduceKind::Sum, exps);
  Value logSum = e.log(sum);
  Value lse = e.add(most, logSum);
  auto indexType = type.clone(labelType.getElementType());
  Value column = IotaOp::create(e.b, e.loc, indexType, 1);
  Value labelRow = e.broadcast(op.getLabels(), type.getShape(), {0});
  Value isLabel = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, column, labelRow);
  Value zeros = e.constantLike(x, 0);
  Value picked = e.select(isLabel, x, zeros);
  Value pick = e.reduceLast(ReduceKind::Sum, picked);
  Value rowLoss = e.sub(lse, pick);
  auto ignoreAttr =
      DenseElementsAttr::get(labelType, e.b.getIntegerAttr(labelType.getElementType(), op.getIgnoreIndex()));
  Value ignore = arith::ConstantOp::create(e.b, e.loc, ignoreAttr);
  Value isValid = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, op.getLabels(), ignore);
  Value none = e.constantLike(rowLoss, 0);
  Value counted = e.select(isValid, rowLoss, none);
  Value one = e.constantLike(rowLoss, 1);
  Value weight = e.select(isValid, one, none);
  Value total = e.reduce(ReduceKind::Sum, counted, {0});
  Value count = e.reduce(ReduceKind::Sum, weight, {0});
  Value least = e.constantLike(count, 1);
  Value valid = arith::MaximumFOp::create(e.b, e.loc, count, least);
  Value loss = e.div(total, valid);
  replace(op, {loss, lse, valid});
}

// A loop nest reduces its inner dimension, or outer ones, or all. Others are reduced in two steps: the trailing ones
// first.
void splitReduction(ReduceOp op, Emitter e) {
  auto type = Emitter::typeOf(op.getInput());
  auto dims = op.getDims();
  int64_t trailing = 0; // reduced dimensions at the end
  while (trailing < static_cast<int64_t>(dims.size()) &&
         dims[dims.size() - 1 - trailing] == type.getRank() - 1 - trailing)
    ++trailing;
  if (trailing == 0 || trailing == static_cast<int64_t>(dims.size()))
    return;
  Value inner = e.reduce(op.getKind(), op.getInput(), dims.take_back(trailing));
  Value outer = e.reduce(op.getKind(), inner, dims.drop_back(trailing));
  replace(op, {outer});
}

struct ExpandNamedOps : impl::ExpandNamedOpsBase<ExpandNamedOps> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops) {
      OpBuilder b(op);
      Emitter e(b, op->getLoc());
      llvm::TypeSwitch<Operation *>(op)
          .Case<LayerNormOp, RmsNormOp, BatchNormOp, SoftmaxOp, GeluOp, GeluGradOp, SwigluOp, CrossEntropyOp>(
              [&](auto named) { expand(named, e); })
          .Case<ReduceOp>([&](ReduceOp reduce) { splitReduction(reduce, e); });
    }
    // Rotary last: it looks at what its operands and its only user have become.
    SmallVector<RotaryOp> rotaries;
    getOperation().walk([&](RotaryOp op) { rotaries.push_back(op); });
    for (RotaryOp op : rotaries) {
      OpBuilder b(op);
      expand(op, Emitter(b, op.getLoc()));
    }
  }
};

} // namespace
} // namespace msamp::fuse
