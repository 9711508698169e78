// Conversions to and from FP8 as integer arithmetic, for targets without such instructions. Rounds to nearest even and
// saturates; every NaN becomes the code 0x7F. Equal to what CUDA calls satfinite conversions.
#include "codegen/cpu/ExpandConversions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace msamp::codegen {
namespace {

Type withElement(Type type, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.clone(element);
  return element;
}

bool isFp8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(type));
}

// What distinguishes the two formats, in terms of the bits of an FP32.
struct Format {
  explicit Format(Type type) : e4m3(isa<Float8E4M3FNType>(getElementTypeOrSelf(type))) {}
  bool e4m3;
  int64_t shift() const { return e4m3 ? 20 : 21; }                       // mantissa bits that FP32 has more
  int64_t bias() const { return e4m3 ? 120 : 112; }                      // difference of the exponents' biases
  int64_t largest() const { return e4m3 ? 0x7E : 0x7B; }                 // code of the largest finite value
  int64_t leastNormal() const { return e4m3 ? 0x3C800000 : 0x38800000; } // 2^-6, 2^-14
  // Added to a subnormal it leaves the rounded code in the low bits: its unit in the last place is the format's least
  // value, 2^-9 or 2^-16.
  int64_t magic() const { return e4m3 ? 0x46800000 : 0x43000000; }
  int64_t lastFinite() const { return e4m3 ? 0x7E : 0x7C; } // codes above are NaN (E5M2: 0x7C is infinity)
};

struct Words {
  ImplicitLocOpBuilder b;
  Type i32, f32, i8;
  Words(Location loc, OpBuilder &builder, Type like)
      : b(loc, builder), i32(withElement(like, b.getI32Type())), f32(withElement(like, b.getF32Type())),
        i8(withElement(like, b.getI8Type())) {}
  Value number(int64_t value) {
    TypedAttr attr = b.getI32IntegerAttr(static_cast<int32_t>(value));
    if (auto shaped = dyn_cast<ShapedType>(i32))
      attr = DenseElementsAttr::get(shaped, Attribute(attr));
    return arith::ConstantOp::create(b, attr);
  }
  Value band(Value x, int64_t y) { return arith::AndIOp::create(b, x, number(y)); }
  Value shr(Value x, int64_t y) { return arith::ShRUIOp::create(b, x, number(y)); }
  Value shl(Value x, int64_t y) { return arith::ShLIOp::create(b, x, number(y)); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
  Value sub(Value x, int64_t y) { return arith::SubIOp::create(b, x, number(y)); }
  Value bits(Value x) { return arith::BitcastOp::create(b, i32, x); }
  Value real(Value x) { return arith::BitcastOp::create(b, f32, x); }
  Value less(Value x, int64_t y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, number(y)); }
  Value greater(Value x, int64_t y) { return arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, x, number(y)); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
};

struct NarrowToFp8 : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    if (!isFp8(op.getType()))
      return failure();
    Format f(op.getType());
    Words w(op.getLoc(), rewriter, op.getType());
    Value x = op.getIn();
    if (!getElementTypeOrSelf(x.getType()).isF32())
      x = arith::ExtFOp::create(w.b, w.f32, x);
    Value word = w.bits(x);
    Value magnitude = w.band(word, 0x7FFFFFFF);
    Value top = w.shr(word, 24);
    Value sign = w.band(top, 0x80);
    // Normal numbers: round to nearest even by adding half a unit less one, plus the last kept bit.
    Value kept = w.shr(magnitude, f.shift());
    Value odd = w.band(kept, 1);
    Value half = w.number((int64_t(1) << (f.shift() - 1)) - 1);
    Value increment = w.add(odd, half);
    Value rounded = w.add(magnitude, increment);
    Value code = w.shr(rounded, f.shift());
    code = w.sub(code, f.bias() << (23 - f.shift()));
    Value largest = w.number(f.largest());
    code = arith::MinUIOp::create(w.b, code, largest);
    // Subnormal ones: the FP32 addition itself rounds.
    Value magic = w.real(w.number(f.magic()));
    Value positive = w.real(magnitude);
    Value shifted = arith::AddFOp::create(w.b, positive, magic);
    Value small = w.sub(w.bits(shifted), f.magic());
    Value isSmall = w.less(magnitude, f.leastNormal());
    code = w.select(isSmall, small, code);
    Value isNan = w.greater(magnitude, 0x7F800000);
    Value nan = w.number(0x7F);
    code = w.select(isNan, nan, code);
    Value zero = w.number(0);
    sign = w.select(isNan, zero, sign);
    code = arith::OrIOp::create(w.b, code, sign);
    Value byte = arith::TruncIOp::create(w.b, w.i8, code);
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), byte);
    return success();
  }
};

struct WidenFp8 : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    Type from = op.getIn().getType();
    if (!isFp8(from))
      return failure();
    Format f(from);
    Words w(op.getLoc(), rewriter, from);
    Value byte = arith::BitcastOp::create(w.b, w.i8, op.getIn());
    Value code = arith::ExtUIOp::create(w.b, w.i32, byte);
    Value magnitude = w.band(code, 0x7F);
    Value signBit = w.band(code, 0x80);
    Value sign = w.shl(signBit, 24);
    // The code's bits read as an FP32 are the value times a power of two; this holds for subnormal codes too.
    Value placed = w.real(w.shl(magnitude, f.shift()));
    Value factor = w.real(w.number((127 + f.bias()) << 23));
    Value value = arith::MulFOp::create(w.b, placed, factor);
    Value word = w.bits(value);
    if (!f.e4m3) {
      Value infinityCode = w.number(0x7C);
      Value isInfinity = arith::CmpIOp::create(w.b, arith::CmpIPredicate::eq, magnitude, infinityCode);
      Value infinity = w.number(0x7F800000);
      word = w.select(isInfinity, infinity, word);
    }
    Value isNan = w.greater(magnitude, f.lastFinite());
    Value nan = w.number(0x7FC00000);
    word = w.select(isNan, nan, word);
    word = arith::OrIOp::create(w.b, word, sign);
    Value result = w.real(word);
    if (!getElementTypeOrSelf(op.getType()).isF32())
      result = arith::TruncFOp::create(w.b, op.getType(), result);
    rewriter.replaceOp(op, result);
    return success();
  }
};

// Integers become FP32 before they are narrowed: LLVM would call a run-time library that kernels do not have.
template <typename ConvertOp>
struct IntegerThroughFp32 : OpRewritePattern<ConvertOp> {
  using OpRewritePattern<ConvertOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvertOp op, PatternRewriter &rewriter) const override {
    Type element = getElementTypeOrSelf(op.getType());
    if (!element.isBF16() && !isFp8(element))
      return failure();
    Type wide = rewriter.getF32Type();
    if (auto vector = dyn_cast<VectorType>(op.getType()))
      wide = vector.clone(wide);
    Value value = ConvertOp::create(rewriter, op.getLoc(), wide, op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), value);
    return success();
  }
};

} // namespace

void populateExpandFp8Patterns(RewritePatternSet &patterns) {
  patterns.add<NarrowToFp8, WidenFp8>(patterns.getContext());
}

void populateIntegerThroughFp32Patterns(RewritePatternSet &patterns) {
  patterns.add<IntegerThroughFp32<arith::SIToFPOp>, IntegerThroughFp32<arith::UIToFPOp>>(patterns.getContext());
}

void populateExpandConversionPatterns(RewritePatternSet &patterns) {
  populateExpandFp8Patterns(patterns);
  populateIntegerThroughFp32Patterns(patterns);
  arith::populateExpandBFloat16Patterns(patterns);
}

} // namespace msamp::codegen
