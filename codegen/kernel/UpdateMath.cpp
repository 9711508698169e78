#include "codegen/kernel/UpdateMath.h"

#include "codegen/kernel/ScaleOf.h"
#include "passes/partition/Types.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace msamp::codegen {

using partition::Storage;

bool isBlockScaled(Storage type) {
  return type == Storage::F16 || type == Storage::E4M3 || type == Storage::E5M2;
}

UpdateMath::UpdateMath(KernelBuilder &k, StringRef optimizer, ArrayRef<Value> hyper, int64_t width)
    : k(k), decoupled(optimizer == "adamw"), momentum(optimizer == "sgd"), width(width),
      gradFactor(hyper[GradFactor]), beta1(hyper[Beta1]), beta2(hyper[Beta2]) {
  Value one = k.constant(k.f32(), 1.0);
  Value less1 = arith::SubFOp::create(k.b, one, hyper[Beta1]);
  Value less2 = arith::SubFOp::create(k.b, one, hyper[Beta2]);
  rest1 = wide(less1), rest2 = wide(less2);
  rate = wide(hyper[LearningRate]), decay = wide(hyper[WeightDecay]), epsilon = wide(hyper[Epsilon]);
  biasM = wide(hyper[BiasM]), biasV = wide(hyper[BiasV]);
}

// Exact, since scales are powers of two within 2^-126 and 2^126: only the exponent changes its sign.
Value UpdateMath::inverse(Value scale) {
  Value bits = arith::BitcastOp::create(k.b, k.i32(), scale), twice = k.integer(k.i32(), 2 * 127 << 23);
  bits = arith::SubIOp::create(k.b, twice, bits);
  return arith::BitcastOp::create(k.b, k.f32(), bits);
}

void UpdateMath::setScales(const UpdateScales &scales) {
  auto over = [&](Value factor, Value scale) {
    if (scale)
      factor = arith::MulFOp::create(k.b, factor, inverse(scale));
    return wide(factor);
  };
  factors.source = scales.source ? wide(inverse(scales.source)) : Value();
  factors.grad = over(gradFactor, scales.grad);
  factors.m = over(beta1, scales.m);
  factors.v = over(beta2, scales.v);
}

Value UpdateMath::real(Value stored, Value factor) {
  Type type = widen(k.f32(), width);
  if (stored.getType() != type)
    stored = arith::ExtFOp::create(k.b, type, stored);
  return factor ? arith::MulFOp::create(k.b, stored, factor).getResult() : stored;
}

Value UpdateMath::stored(Value v, Storage type, Value scale) {
  if (scale)
    v = arith::MulFOp::create(k.b, v, wide(scale));
  if (type != Storage::F32)
    v = arith::TruncFOp::create(k.b, widen(partition::elementOf(k.b.getContext(), type), width), v);
  return v;
}

// Which products are fused with which sums is said here and not left to the targets, which would choose differently.
UpdateVectors UpdateMath::step(const UpdateVectors &stored) {
  auto mul = [&](Value x, Value y) -> Value { return arith::MulFOp::create(k.b, x, y); };
  auto fma = [&](Value x, Value y, Value z) -> Value { return math::FmaOp::create(k.b, x, y, z); };
  Value p = real(stored.source, factors.source);
  Value g = real(stored.grad, factors.grad);
  if (!decoupled)
    g = fma(decay, p, g); // L2 regularisation
  UpdateVectors result;
  Value step;
  if (momentum) {
    step = result.m = fma(real(stored.m, {}), factors.m, g);
  } else {
    Value keptM = real(stored.m, factors.m);
    result.m = fma(rest1, g, keptM);
    Value keptV = real(stored.v, factors.v);
    Value square = mul(g, g);
    result.v = fma(rest2, square, keptV);
    Value mHat = mul(result.m, biasM);
    Value vHat = mul(result.v, biasV);
    Value root = math::SqrtOp::create(k.b, vHat);
    Value denominator = arith::AddFOp::create(k.b, root, epsilon);
    step = arith::DivFOp::create(k.b, mHat, denominator);
  }
  if (decoupled)
    step = fma(decay, p, step);
  Value down = arith::NegFOp::create(k.b, rate);
  result.source = fma(down, step, p);
  return result;
}

Value UpdateMath::magnitude(ArrayRef<Value> vectors) {
  Value most;
  for (Value v : vectors) {
    Value a = math::AbsFOp::create(k.b, v);
    most = most ? arith::MaximumFOp::create(k.b, most, a).getResult() : a;
  }
  return vector::ReductionOp::create(k.b, vector::CombiningKind::MAXIMUMF, most);
}

Value UpdateMath::scaleOf(Storage type, Value amax) {
  return emitScaleOf(k.b, amax, partition::elementOf(k.b.getContext(), type), 0);
}

} // namespace msamp::codegen
