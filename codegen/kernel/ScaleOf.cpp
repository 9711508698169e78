// The scale of an amax without logarithms: the exponent is read off its bits, exactly.
#include "codegen/kernel/ScaleOf.h"
#include "codegen/kernel/BodyOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace msamp::codegen {

Value emitScaleOf(ImplicitLocOpBuilder &b, Value amax, Type format, int64_t margin) {
  // max(format) = m * 2^e with m in [1, 2): the scale's exponent is e - exponent(amax), less one where amax's mantissa
  // is above m's.
  int64_t exponent = 8, mantissa = 0x600000; // 448 = 1.75 * 2^8
  if (isa<Float8E5M2Type>(format))
    exponent = 15; // 57344 = 1.75 * 2^15
  if (format.isF16())
    exponent = 15, mantissa = 0x7FE000; // 65504
  Type f32 = amax.getType(), i32 = b.getI32Type();
  if (auto vector = dyn_cast<VectorType>(f32))
    i32 = vector.clone(i32);
  auto number = [&](int64_t v) { return integerOf(b, i32, v); };
  Value bits = arith::BitcastOp::create(b, i32, amax);
  Value magnitudeMask = number(0x7FFFFFFF), mantissaMask = number(0x7FFFFF), shift = number(23);
  bits = arith::AndIOp::create(b, bits, magnitudeMask);
  Value biased = arith::ShRUIOp::create(b, bits, shift);
  Value fraction = arith::AndIOp::create(b, bits, mantissaMask);
  Value limit = number(mantissa);
  Value above = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, fraction, limit);
  Value most = number(exponent + 127 + 127 - margin); // biased exponent of the scale, plus that of amax
  Value one = number(1), zero = number(0);
  Value result = arith::SubIOp::create(b, most, biased);
  Value less = arith::SelectOp::create(b, above, one, zero);
  result = arith::SubIOp::create(b, result, less);
  Value low = number(1), high = number(127 + 126);
  result = arith::MaxSIOp::create(b, result, low);
  result = arith::MinSIOp::create(b, result, high);
  Value word = arith::ShLIOp::create(b, result, shift);
  Value scale = arith::BitcastOp::create(b, f32, word);
  Value isZero = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, bits, zero);
  Value special = number(255);
  Value isSpecial = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, biased, special);
  Value unit = constantOf(b, f32, 1.0);
  scale = arith::SelectOp::create(b, isZero, unit, scale);
  return arith::SelectOp::create(b, isSpecial, unit, scale);
}

} // namespace msamp::codegen
