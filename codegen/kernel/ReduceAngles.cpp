#include "codegen/kernel/ReduceAngles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

#include <numbers>

using namespace mlir;

namespace msamp::codegen {
namespace {

constexpr StringLiteral reducedName = "msamp.reduced";

template <class OpTy> struct ReduceAngle : OpRewritePattern<OpTy> {
  // Before the polynomials, which take the op as it is.
  explicit ReduceAngle(MLIRContext *context) : OpRewritePattern<OpTy>(context, PatternBenefit(2)) {}

  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    const Type type = op.getType();
    if (op->hasAttr(reducedName) || !getElementTypeOrSelf(type).isF32())
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    auto number = [&](double value) -> Value {
      const FloatAttr attr = b.getF32FloatAttr(static_cast<float>(value));
      if (auto shaped = dyn_cast<ShapedType>(type))
        return arith::ConstantOp::create(b, DenseElementsAttr::get(shaped, Attribute(attr)));
      return arith::ConstantOp::create(b, attr);
    };
    constexpr double turn = 2 * std::numbers::pi;
    constexpr auto head = static_cast<float>(turn);
    const Value turns = math::RoundEvenOp::create(b, arith::MulFOp::create(b, op.getOperand(), number(1 / turn)));
    const Value back = arith::NegFOp::create(b, turns);
    const Value near = math::FmaOp::create(b, back, number(head), op.getOperand());
    const Value angle = math::FmaOp::create(b, back, number(turn - head), near);
    auto reduced = OpTy::create(b, angle);
    reduced->setAttr(reducedName, b.getUnitAttr());
    rewriter.replaceOp(op, reduced);
    return success();
  }
};

} // namespace

void populateReduceAnglePatterns(RewritePatternSet &patterns) {
  patterns.add<ReduceAngle<math::SinOp>, ReduceAngle<math::CosOp>>(patterns.getContext());
}

} // namespace msamp::codegen
