// Derivative rules of pointwise upstream ops, one expression for each operand.
#include "ir/Msamp/UpstreamDerivatives.h"

#include "ir/Msamp/Expr.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <numbers>
#include <optional>

using namespace mlir;

namespace msamp {
namespace {

using Gradient = std::optional<Expr>;

// A pointwise op with the gradient of its result.
struct Point {
  Operation *op;
  Expr dy;
  Expr x(unsigned i) const { return dy.wrap(op->getOperand(i)); }
  Expr y() const { return dy.wrap(op->getResult(0)); }
  Expr zero() const { return dy.like(0.0); }
};

// Rules[i](point) is the gradient of operand i; none means zero.
template <typename OpT, auto... Rules>
struct Pointwise : DifferentiableOpInterface::ExternalModel<Pointwise<OpT, Rules...>, OpT> {
  void buildVJP(Operation *op, OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool> wanted,
                SmallVectorImpl<Value> &operandGrads) const {
    operandGrads.assign(op->getNumOperands(), Value());
    if (!resultGrads[0])
      return;
    Point point{op, Expr(builder, op->getLoc(), resultGrads[0])};
    using Function = Gradient (*)(const Point &);
    Function rules[] = {+Rules...};
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      if (!wanted[i])
        continue;
      if (Gradient gradient = rules[i](point))
        operandGrads[i] = gradient->value;
    }
  }
};

template <typename OpT, auto... Rules>
void rule(MLIRContext *context) {
  OpT::template attachInterface<Pointwise<OpT, Rules...>>(*context);
}

// exponent * x^(exponent - 1), without a power where the exponent is the constant 2.
Expr powerSlope(const Expr &x, const Expr &exponent) {
  DenseElementsAttr constant;
  if (matchPattern(exponent.value, m_Constant(&constant)) && constant.isSplat() &&
      constant.getSplatValue<APFloat>().isExactlyValue(2.0))
    return x * 2.0;
  Expr lowered = x.make<math::PowFOp>(x.value, (exponent - 1.0).value);
  return exponent * lowered;
}

// The operand that was taken gets the whole gradient; of equals the second one, so that relu has slope 0 at 0. Where that is 0
// the result tells which it was, and is what the next op keeps: nothing is kept for the gradient alone. Other bounds a stored
// result may be rounded away from.
template <arith::CmpFPredicate Predicate, unsigned Operand>
Gradient taken(const Point &p) {
  Expr told = matchPattern(p.x(1).value, m_AnyZeroFloat()) ? p.y() : p.x(0);
  Expr first = told.compare(Predicate, p.x(1));
  return Operand == 0 ? first.choose(p.dy, p.zero()) : first.choose(p.zero(), p.dy);
}

Gradient none(const Point &) {
  return std::nullopt;
}
Gradient same(const Point &p) {
  return p.dy;
}

template <typename CastOp>
Gradient castBack(const Point &p) {
  return p.dy.make<CastOp>(p.op->getOperand(0).getType(), p.dy.value);
}

void attachArith(MLIRContext *c) {
  using P = arith::CmpFPredicate;
  rule<arith::AddFOp, same, same>(c);
  rule<arith::SubFOp, same, [](const Point &p) -> Gradient { return -p.dy; }>(c);
  rule<arith::MulFOp, [](const Point &p) -> Gradient { return p.dy * p.x(1); },
       [](const Point &p) -> Gradient { return p.dy * p.x(0); }>(c);
  rule<arith::DivFOp, [](const Point &p) -> Gradient { return p.dy / p.x(1); },
       [](const Point &p) -> Gradient { return -(p.dy * p.y() / p.x(1)); }>(c);
  rule<arith::NegFOp, [](const Point &p) -> Gradient { return -p.dy; }>(c);
  rule<arith::MaximumFOp, taken<P::OGT, 0>, taken<P::OGT, 1>>(c);
  rule<arith::MaxNumFOp, taken<P::OGT, 0>, taken<P::OGT, 1>>(c);
  rule<arith::MinimumFOp, taken<P::OLT, 0>, taken<P::OLT, 1>>(c);
  rule<arith::MinNumFOp, taken<P::OLT, 0>, taken<P::OLT, 1>>(c);
  rule<arith::SelectOp, none, [](const Point &p) -> Gradient { return p.x(0).choose(p.dy, p.zero()); },
       [](const Point &p) -> Gradient { return p.x(0).choose(p.zero(), p.dy); }>(c);
  rule<arith::ExtFOp, castBack<arith::TruncFOp>>(c);
  rule<arith::TruncFOp, castBack<arith::ExtFOp>>(c);
}

void attachMath(MLIRContext *c) {
  rule<math::ExpOp, [](const Point &p) -> Gradient { return p.dy * p.y(); }>(c);
  rule<math::Exp2Op, [](const Point &p) -> Gradient { return p.dy * p.y() * std::numbers::ln2; }>(c);
  rule<math::ExpM1Op, [](const Point &p) -> Gradient { return p.dy * (p.y() + 1.0); }>(c);
  rule<math::LogOp, [](const Point &p) -> Gradient { return p.dy / p.x(0); }>(c);
  rule<math::Log1pOp, [](const Point &p) -> Gradient { return p.dy / (p.x(0) + 1.0); }>(c);
  rule<math::Log2Op, [](const Point &p) -> Gradient { return p.dy / (p.x(0) * std::numbers::ln2); }>(c);
  rule<math::SqrtOp, [](const Point &p) -> Gradient { return p.dy * 0.5 / p.y(); }>(c);
  rule<math::RsqrtOp, [](const Point &p) -> Gradient { return p.dy * p.y() * -0.5 / p.x(0); }>(c);
  rule<math::TanhOp, [](const Point &p) -> Gradient { return p.dy * (1.0 - p.y() * p.y()); }>(c);
  rule<math::ErfOp, [](const Point &p) -> Gradient {
    Expr x = p.x(0), square = x * x;
    return p.dy * (-square).exp() * (2.0 * std::numbers::inv_sqrtpi);
  }>(c);
  rule<math::SinOp, [](const Point &p) -> Gradient { return p.dy * p.dy.make<math::CosOp>(p.x(0).value); }>(c);
  rule<math::CosOp, [](const Point &p) -> Gradient { return -(p.dy * p.dy.make<math::SinOp>(p.x(0).value)); }>(c);
  rule<math::TanOp, [](const Point &p) -> Gradient { return p.dy * (p.y() * p.y() + 1.0); }>(c);
  rule<math::AtanOp, [](const Point &p) -> Gradient { return p.dy / (p.x(0) * p.x(0) + 1.0); }>(c);
  rule<math::SinhOp, [](const Point &p) -> Gradient { return p.dy * p.dy.make<math::CoshOp>(p.x(0).value); }>(c);
  rule<math::CoshOp, [](const Point &p) -> Gradient { return p.dy * p.dy.make<math::SinhOp>(p.x(0).value); }>(c);
  rule<math::AbsFOp, [](const Point &p) -> Gradient {
    Expr x = p.x(0), zero = p.zero(), down = -p.dy;
    Expr negative = x.compare(arith::CmpFPredicate::OLT, zero).choose(down, zero);
    return x.compare(arith::CmpFPredicate::OGT, zero).choose(p.dy, negative);
  }>(c);
  rule<math::PowFOp, [](const Point &p) -> Gradient { return p.dy * powerSlope(p.x(0), p.x(1)); },
       [](const Point &p) -> Gradient { return p.dy * p.y() * p.x(0).log(); }>(c);
  rule<math::FmaOp, [](const Point &p) -> Gradient { return p.dy * p.x(1); },
       [](const Point &p) -> Gradient { return p.dy * p.x(0); }, same>(c);
  rule<math::FloorOp, none>(c);
  rule<math::CeilOp, none>(c);
  rule<math::RoundOp, none>(c);
  rule<math::RoundEvenOp, none>(c);
  rule<math::TruncOp, none>(c);
}

} // namespace

void registerDerivativeModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) { attachArith(context); });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) { attachMath(context); });
}

} // namespace msamp
