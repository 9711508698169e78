// Division and elementary functions by the approximate instructions (ex2, rcp, sqrt, rsqrt; 1 to 2 units in the last
// place) and FMAs around them. What kernels seldom need keeps MLIR's polynomials.
#include "codegen/cuda/Lowering.h"
#include "codegen/kernel/ReduceAngles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>
#include <limits>
#include <numbers>

using namespace mlir;

namespace msamp::codegen::cuda {
namespace {

// FP32 arithmetic on scalars and vectors of one type.
class Fp32 {
public:
  Fp32(Location loc, OpBuilder &builder, Type type) : b(loc, builder), type(type) {}

  Value number(double value) { return constant(b.getF32FloatAttr(static_cast<float>(value)), b.getF32Type()); }
  Value word(int64_t value) { return constant(b.getI32IntegerAttr(static_cast<int32_t>(value)), b.getI32Type()); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value mul(Value x, double y) { return mul(x, number(y)); }
  Value neg(Value x) { return arith::NegFOp::create(b, x); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value abs(Value x) { return math::AbsFOp::create(b, x); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
  Value bits(Value x) { return arith::BitcastOp::create(b, withElement(b.getI32Type()), x); }
  Value real(Value x) { return arith::BitcastOp::create(b, withElement(b.getF32Type()), x); }
  Value less(Value x, double y) {
    Value bound = number(y);
    return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, x, bound);
  }

  // An instruction that takes and gives one value.
  Value approximate(StringRef intrinsic, Value x) {
    auto vector = dyn_cast<VectorType>(type);
    if (!vector)
      return call(intrinsic, x);
    SmallVector<Value> results;
    for (int64_t i = 0; i < vector.getDimSize(0); ++i) {
      Value element = vector::ExtractOp::create(b, x, i);
      results.push_back(call(intrinsic, element));
    }
    return vector::FromElementsOp::create(b, vector, results);
  }
  // Subnormal arguments and results are taken as zero, which spares the instructions around each of these.
  Value exp2Flushed(Value x) { return approximate("llvm.nvvm.ex2.approx.ftz", x); }
  Value reciprocalFlushed(Value x) { return approximate("llvm.nvvm.rcp.approx.ftz.f", x); }

  ImplicitLocOpBuilder b;

private:
  Type withElement(Type element) {
    if (auto vector = dyn_cast<VectorType>(type))
      return vector.clone(element);
    return element;
  }
  Value constant(TypedAttr attr, Type element) {
    if (isa<VectorType>(type))
      attr = DenseElementsAttr::get(cast<VectorType>(withElement(element)), Attribute(attr));
    return arith::ConstantOp::create(b, attr);
  }
  Value call(StringRef intrinsic, Value x) {
    auto op = LLVM::CallIntrinsicOp::create(b, b.getF32Type(), b.getStringAttr(intrinsic), ValueRange(x));
    return op.getResult(0);
  }

  Type type;
};

// FP32 on a scalar or a vector of rank 1; patterns take nothing else.
bool isTaken(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return getElementTypeOrSelf(type).isF32() && (!vector || (vector.getRank() == 1 && !vector.isScalable()));
}

template <typename OpTy>
struct LowerTo : OpRewritePattern<OpTy> {
  LowerTo(MLIRContext *context, Value (*emit)(Fp32 &, OpTy))
      : OpRewritePattern<OpTy>(context, /*benefit=*/2), emit(emit) {}
  LogicalResult matchAndRewrite(OpTy op, PatternRewriter &rewriter) const override {
    if (!isTaken(op.getType()))
      return failure();
    Fp32 f(op.getLoc(), rewriter, op.getType());
    rewriter.replaceOp(op, emit(f, op));
    return success();
  }
  Value (*emit)(Fp32 &, OpTy);
};

// The approximate quotient and one correction by its remainder, which also makes division by powers of two exact.
// Where there is no finite remainder (by 0 or infinity, of infinity or NaN, beyond FP32) the approximate quotient is
// right. With `arcp` there is no correction.
Value divide(Fp32 &f, arith::DivFOp op) {
  Value x = op.getLhs(), y = op.getRhs();
  FloatAttr divisor;
  DenseFPElementsAttr splat;
  if (matchPattern(y, m_Constant(&splat)) && splat.isSplat())
    divisor = f.b.getF32FloatAttr(splat.getSplatValue<APFloat>().convertToFloat());
  Value r;
  if (divisor || matchPattern(y, m_Constant(&divisor))) {
    double value = divisor.getValue().convertToDouble();
    int exponent;
    if (std::abs(std::frexp(value, &exponent)) == 0.5 && std::abs(exponent) < 126)
      return f.mul(x, 1 / value);
    r = f.number(1 / value);
  } else {
    r = f.reciprocalFlushed(y);
    if (arith::bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::arcp))
      return f.mul(x, r);
  }
  Value quotient = f.mul(x, r);
  Value negative = f.neg(y);
  Value remainder = f.fma(negative, quotient, x);
  Value corrected = f.fma(remainder, r, quotient);
  Value infinity = f.number(std::numeric_limits<double>::infinity());
  Value size = f.abs(remainder);
  Value finite = arith::CmpFOp::create(f.b, arith::CmpFPredicate::OLT, size, infinity);
  return f.select(finite, corrected, quotient);
}

// 2^(x / ln 2). Rounding the exponent moves x by half a unit in its last place at most; results below the normal numbers
// are 0.
Value exponential(Fp32 &f, math::ExpOp op) {
  return f.exp2Flushed(f.mul(op.getOperand(), std::numbers::log2e));
}

// 1 - 2 / (1 + e^2|x|), and near 0, where that cancels, an odd polynomial.
Value hyperbolicTangent(Fp32 &f, math::TanhOp op) {
  constexpr double limit = 0.55, coefficients[] = {0.01645874, -0.05268414, 0.13320942, -0.3333296};
  Value x = op.getOperand();
  Value a = f.abs(x);
  Value power = f.exp2Flushed(f.mul(a, 2 * std::numbers::log2e));
  Value one = f.number(1), minusTwo = f.number(-2);
  Value r = f.reciprocalFlushed(f.add(power, one));
  Value tail = f.fma(minusTwo, r, one);
  tail = math::CopySignOp::create(f.b, tail, x);
  Value square = f.mul(x, x);
  Value p = f.number(coefficients[0]);
  for (double coefficient : llvm::drop_begin(coefficients)) {
    Value c = f.number(coefficient);
    p = f.fma(p, square, c);
  }
  p = f.mul(p, square);
  Value near = f.fma(p, x, x);
  return f.select(f.less(a, limit), near, tail);
}

template <typename OpTy>
void addInstruction(RewritePatternSet &patterns, Value (*emit)(Fp32 &, OpTy)) {
  patterns.add<LowerTo<OpTy>>(patterns.getContext(), emit);
}

} // namespace

void populateMathPatterns(RewritePatternSet &patterns) {
  addInstruction<arith::DivFOp>(patterns, divide);
  addInstruction<math::ExpOp>(patterns, exponential);
  addInstruction<math::TanhOp>(patterns, hyperbolicTangent);
  addInstruction<math::Exp2Op>(patterns, [](Fp32 &f, math::Exp2Op op) { return f.exp2Flushed(op.getOperand()); });
  // With `afn` subnormal arguments are taken as zero.
  addInstruction<math::SqrtOp>(patterns, [](Fp32 &f, math::SqrtOp op) {
    const bool flushed = arith::bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::afn);
    return f.approximate(flushed ? "llvm.nvvm.sqrt.approx.ftz.f" : "llvm.nvvm.sqrt.approx.f", op.getOperand());
  });
  addInstruction<math::RsqrtOp>(
      patterns, [](Fp32 &f, math::RsqrtOp op) { return f.approximate("llvm.nvvm.rsqrt.approx.f", op.getOperand()); });
  // By exponentials and logarithms, which are lowered in turn.
  static constexpr StringRef composed[] = {"powf", "tan", "sinh", "cosh", "asinh", "acosh", "atanh"};
  math::populateExpansionPatterns(patterns, composed);
  populateReduceAnglePatterns(patterns);
  populateMathPolynomialApproximationPatterns(patterns);
}

} // namespace msamp::codegen::cuda
