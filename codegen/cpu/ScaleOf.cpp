// The scale of an amax without logarithms: the exponent is read off its bits, exactly.
#include "codegen/cpu/ScaleOf.h"

using namespace mlir;

namespace msamp::codegen {

Value emitScaleOf(KernelBuilder &k, Value amax, Type format, int64_t margin) {
  // max(format) = m * 2^e with m in [1, 2): the scale's exponent is e - exponent(amax), less one where amax's mantissa
  // is above m's.
  int64_t exponent = 8, mantissa = 0x600000; // 448 = 1.75 * 2^8
  if (isa<Float8E5M2Type>(format))
    exponent = 15; // 57344 = 1.75 * 2^15
  if (format.isF16())
    exponent = 15, mantissa = 0x7FE000; // 65504
  Type f32 = amax.getType(), i32 = k.b.getI32Type();
  if (auto vector = dyn_cast<VectorType>(f32))
    i32 = vector.clone(i32);
  auto number = [&](int64_t v) { return k.integer(i32, v); };
  Value bits = arith::BitcastOp::create(k.b, i32, amax);
  Value magnitudeMask = number(0x7FFFFFFF), mantissaMask = number(0x7FFFFF), shift = number(23);
  bits = arith::AndIOp::create(k.b, bits, magnitudeMask);
  Value biased = arith::ShRUIOp::create(k.b, bits, shift);
  Value fraction = arith::AndIOp::create(k.b, bits, mantissaMask);
  Value limit = number(mantissa);
  Value above = arith::CmpIOp::create(k.b, arith::CmpIPredicate::ugt, fraction, limit);
  Value most = number(exponent + 127 + 127 - margin); // biased exponent of the scale, plus that of amax
  Value one = number(1), zero = number(0);
  Value result = arith::SubIOp::create(k.b, most, biased);
  Value less = arith::SelectOp::create(k.b, above, one, zero);
  result = arith::SubIOp::create(k.b, result, less);
  Value low = number(1), high = number(127 + 126);
  result = arith::MaxSIOp::create(k.b, result, low);
  result = arith::MinSIOp::create(k.b, result, high);
  Value word = arith::ShLIOp::create(k.b, result, shift);
  Value scale = arith::BitcastOp::create(k.b, f32, word);
  Value isZero = arith::CmpIOp::create(k.b, arith::CmpIPredicate::eq, bits, zero);
  Value special = number(255);
  Value isSpecial = arith::CmpIOp::create(k.b, arith::CmpIPredicate::eq, biased, special);
  Value unit = k.constant(f32, 1.0);
  scale = arith::SelectOp::create(k.b, isZero, unit, scale);
  return arith::SelectOp::create(k.b, isSpecial, unit, scale);
}

} // namespace msamp::codegen
