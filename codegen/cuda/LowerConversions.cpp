// FP8 by cvt on pairs of values; BF16 to FP32 by shifts of 32-bit words, which cost less than a conversion.
#include "codegen/cpu/ExpandConversions.h"
#include "codegen/cuda/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace msamp::codegen::cuda {
namespace {

Type withElement(Type type, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.clone(element);
  return element;
}

bool isFp8(Type type) {
  return isa<Float8E4M3FNType, Float8E5M2Type>(getElementTypeOrSelf(type));
}

// Number of elements of a vector of rank 1, 1 for a scalar, 0 for what the patterns do not take.
int64_t widthOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return 1;
  return vector.getRank() == 1 && !vector.isScalable() ? vector.getDimSize(0) : 0;
}

Value element(ImplicitLocOpBuilder &b, Value v, int64_t i) {
  if (!isa<VectorType>(v.getType()))
    return v;
  return vector::ExtractOp::create(b, v, i);
}

struct NarrowToFp8 : OpRewritePattern<arith::TruncFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op, PatternRewriter &rewriter) const override {
    Type format = getElementTypeOrSelf(op.getType());
    int64_t width = widthOf(op.getType());
    if (!isFp8(format) || width == 0)
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Value x = op.getIn();
    if (!getElementTypeOrSelf(x.getType()).isF32())
      x = arith::ExtFOp::create(b, withElement(x.getType(), b.getF32Type()), x);
    Type i16 = b.getI16Type(), i8 = b.getI8Type();
    Value zero;
    if (width % 2)
      zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    SmallVector<Value> pairs;
    for (int64_t i = 0; i < width; i += 2) {
      Value low = element(b, x, i);
      Value high = i + 1 < width ? element(b, x, i + 1) : zero;
      pairs.push_back(NVVM::ConvertF32x2ToF8x2Op::create(b, i16, high, low, NVVM::FPRoundingMode::RN,
                                                         NVVM::SaturationMode::SATFINITE, false, format));
    }
    Value codes;
    if (!isa<VectorType>(op.getType())) {
      codes = arith::TruncIOp::create(b, i8, pairs[0]);
    } else {
      auto words = VectorType::get({static_cast<int64_t>(pairs.size())}, i16);
      Value packed = vector::FromElementsOp::create(b, words, pairs);
      codes = vector::BitCastOp::create(b, VectorType::get({words.getDimSize(0) * 2}, i8), packed);
      if (width % 2) {
        SmallVector<int64_t> offset = {0}, size = {width}, stride = {1};
        codes = vector::ExtractStridedSliceOp::create(b, codes, offset, size, stride);
      }
    }
    rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), codes);
    return success();
  }
};

struct WidenFp8 : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    Type from = op.getIn().getType(), format = getElementTypeOrSelf(from);
    int64_t width = widthOf(from);
    if (!isFp8(format) || width == 0)
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type i16 = b.getI16Type(), i8 = b.getI8Type();
    auto oneWord = VectorType::get({1}, i16), twoCodes = VectorType::get({2}, i8);
    auto twoHalves = VectorType::get({2}, b.getF16Type());
    Value codes = arith::BitcastOp::create(b, withElement(from, i8), op.getIn());
    // Pairs are cut out of 16-bit words: bytes would be moved one by one.
    bool words = width % 2 == 0;
    if (words)
      codes = vector::BitCastOp::create(b, VectorType::get({width / 2}, i16), codes);
    SmallVector<Value> values;
    for (int64_t i = 0; i < (words ? width / 2 : width); ++i) {
      Value code = element(b, codes, i);
      if (!words)
        code = arith::ExtUIOp::create(b, i16, code);
      Value word = vector::BroadcastOp::create(b, oneWord, code);
      Value pair = vector::BitCastOp::create(b, twoCodes, word);
      Value halves = NVVM::ConvertF8x2ToF16x2Op::create(b, twoHalves, pair, false, format);
      for (int64_t j = 0; j < (words ? 2 : 1); ++j) {
        Value half = vector::ExtractOp::create(b, halves, j);
        values.push_back(arith::ExtFOp::create(b, b.getF32Type(), half));
      }
    }
    Value result = values[0];
    if (isa<VectorType>(from))
      result = vector::FromElementsOp::create(b, withElement(from, b.getF32Type()), values);
    if (!getElementTypeOrSelf(op.getType()).isF32())
      result = arith::TruncFOp::create(b, op.getType(), result);
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct WidenBf16 : OpRewritePattern<arith::ExtFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op, PatternRewriter &rewriter) const override {
    Type from = op.getIn().getType();
    int64_t width = widthOf(from);
    if (!getElementTypeOrSelf(from).isBF16() || !getElementTypeOrSelf(op.getType()).isF32() || width == 0)
      return failure();
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Type i32 = b.getI32Type();
    Value sixteen = arith::ConstantOp::create(b, b.getI32IntegerAttr(16));
    if (width % 2) {
      Value bits = arith::BitcastOp::create(b, withElement(from, b.getI16Type()), op.getIn());
      Value wide = arith::ExtUIOp::create(b, withElement(from, i32), bits);
      if (isa<VectorType>(from))
        sixteen = vector::BroadcastOp::create(b, withElement(from, i32), sixteen);
      Value placed = arith::ShLIOp::create(b, wide, sixteen);
      rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), placed);
      return success();
    }
    Value mask = arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(0xFFFF0000)));
    Value words = vector::BitCastOp::create(b, VectorType::get({width / 2}, i32), op.getIn());
    SmallVector<Value> values;
    for (int64_t i = 0; i < width / 2; ++i) {
      Value word = vector::ExtractOp::create(b, words, i);
      Value low = arith::ShLIOp::create(b, word, sixteen);
      Value high = arith::AndIOp::create(b, word, mask);
      values.push_back(arith::BitcastOp::create(b, b.getF32Type(), low));
      values.push_back(arith::BitcastOp::create(b, b.getF32Type(), high));
    }
    rewriter.replaceOpWithNewOp<vector::FromElementsOp>(op, op.getType(), values);
    return success();
  }
};

} // namespace

void populateConversionPatterns(RewritePatternSet &patterns, const Target &target) {
  if (target.fp8Conversion)
    patterns.add<NarrowToFp8, WidenFp8>(patterns.getContext());
  else
    populateExpandFp8Patterns(patterns);
  patterns.add<WidenBf16>(patterns.getContext());
  populateIntegerThroughFp32Patterns(patterns);
}

} // namespace msamp::codegen::cuda
