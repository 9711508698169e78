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
      gradFactor(hyper[GradFactor]) {
  Value one = k.constant(k.f32(), 1.0);
  Value less1 = arith::SubFOp::create(k.b, one, hyper[Beta1]);
  Value less2 = arith::SubFOp::create(k.b, one, hyper[Beta2]);
  beta1 = wide(hyper[Beta1]), beta2 = wide(hyper[Beta2]), rest1 = wide(less1), rest2 = wide(less2);
  rate = wide(hyper[LearningRate]), decay = wide(hyper[WeightDecay]), epsilon = wide(hyper[Epsilon]);
  biasM = wide(hyper[BiasM]), biasV = wide(hyper[BiasV]);
}

Value UpdateMath::inverse(Value scale) {
  Value one = k.constant(k.f32(), 1.0);
  return arith::DivFOp::create(k.b, one, scale);
}

void UpdateMath::setScales(const UpdateScales &scales) {
  Value grad = gradFactor;
  if (scales.grad) {
    Value inverseGrad = inverse(scales.grad);
    grad = arith::MulFOp::create(k.b, inverseGrad, gradFactor);
  }
  factors = {};
  factors.grad = wide(grad);
  if (scales.source)
    factors.source = wide(inverse(scales.source));
  if (scales.m)
    factors.m = wide(inverse(scales.m));
  if (scales.v)
    factors.v = wide(inverse(scales.v));
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

UpdateVectors UpdateMath::step(const UpdateVectors &stored) {
  auto mul = [&](Value x, Value y) -> Value { return arith::MulFOp::create(k.b, x, y); };
  auto add = [&](Value x, Value y) -> Value { return arith::AddFOp::create(k.b, x, y); };
  Value p = real(stored.source, factors.source);
  Value g = real(stored.grad, factors.grad);
  if (!decoupled) { // L2 regularisation
    Value pull = mul(decay, p);
    g = add(g, pull);
  }
  Value m = real(stored.m, factors.m);
  UpdateVectors result;
  Value step;
  Value keptM = mul(beta1, m);
  if (momentum) {
    step = result.m = add(keptM, g);
  } else {
    Value freshM = mul(rest1, g);
    result.m = add(keptM, freshM);
    Value v = real(stored.v, factors.v);
    Value square = mul(g, g);
    Value keptV = mul(beta2, v);
    Value freshV = mul(rest2, square);
    result.v = add(keptV, freshV);
    Value mHat = mul(result.m, biasM);
    Value vHat = mul(result.v, biasV);
    Value root = math::SqrtOp::create(k.b, vHat);
    Value denominator = add(root, epsilon);
    step = arith::DivFOp::create(k.b, mHat, denominator);
  }
  if (decoupled) {
    Value pull = mul(decay, p);
    step = add(step, pull);
  }
  Value change = mul(rate, step);
  result.source = arith::SubFOp::create(k.b, p, change);
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
