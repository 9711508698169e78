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
    : k(k), decoupled(optimizer == "adamw"), momentum(optimizer == "sgd"), width(width), hyper(hyper) {
  Value negative = arith::NegFOp::create(k.b, hyper[LearningRate]);
  down = wide(negative), decay = wide(hyper[WeightDecay]);
  rest1 = wide(hyper[Rest1]), rootRest2 = wide(hyper[RootRest2]);
  rootFactor = wide(hyper[RootFactor]), epsilonFactor = wide(hyper[EpsilonFactor]);
}

// Exact, since scales are powers of two within 2^-126 and 2^126: only the exponent changes its sign.
Value UpdateMath::inverse(Value scale) {
  Value bits = arith::BitcastOp::create(k.b, k.i32(), scale), twice = k.integer(k.i32(), 2 * 127 << 23);
  bits = arith::SubIOp::create(k.b, twice, bits);
  return arith::BitcastOp::create(k.b, k.f32(), bits);
}

void UpdateMath::setScales(const UpdateScales &scales) {
  auto times = [&](Value x, Value y) -> Value { return arith::MulFOp::create(k.b, x, y); };
  auto over = [&](Value factor, Value scale) { return scale ? times(factor, inverse(scale)) : factor; };
  factors.source = scales.source ? wide(inverse(scales.source)) : Value();
  Value grad = over(hyper[GradFactor], scales.grad);
  factors.grad = wide(grad);
  factors.m = wide(over(hyper[Beta1], scales.m));
  factors.v = wide(over(hyper[Beta2], scales.v));
  if (decoupled) {
    gradToM = wide(times(grad, hyper[Rest1]));
    gradToRootV = wide(times(grad, hyper[RootRest2]));
  }
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

// Which products are fused with which sums is said here and not left to the targets, which would choose differently. AdamW,
// with m' and v' the new moments and x the weight:
//   v' = beta2 v + (RootRest2 g)^2
//   step = m' BiasM / (root of (v' BiasV) + epsilon) = m' / (RootFactor root of v' + EpsilonFactor)
//   x' = x - rate (step + decay x), which is not (1 - rate decay) x - rate step: a small rate would vanish in that factor
UpdateVectors UpdateMath::step(const UpdateVectors &stored) {
  auto mul = [&](Value x, Value y) -> Value { return arith::MulFOp::create(k.b, x, y); };
  auto fma = [&](Value x, Value y, Value z) -> Value { return math::FmaOp::create(k.b, x, y, z); };
  Value p = real(stored.source, factors.source);
  UpdateVectors result;
  Value step;
  if (momentum) {
    Value g = fma(decay, p, real(stored.grad, factors.grad)); // L2 regularisation
    step = result.m = fma(real(stored.m, {}), factors.m, g);
  } else {
    Value keptM = real(stored.m, factors.m), keptV = real(stored.v, factors.v), scaledG;
    if (decoupled) {
      Value g = real(stored.grad, {});
      result.m = fma(g, gradToM, keptM);
      scaledG = mul(g, gradToRootV);
    } else {
      Value g = fma(decay, p, real(stored.grad, factors.grad));
      result.m = fma(g, rest1, keptM);
      scaledG = mul(g, rootRest2);
    }
    result.v = fma(scaledG, scaledG, keptV);
    // A GPU's approximate instructions do: 1 to 2 units in the last place. They take a v' below 2^-126 as zero, whose root
    // is far below any epsilon that --eps takes.
    auto afn = arith::FastMathFlagsAttr::get(k.b.getContext(), arith::FastMathFlags::afn);
    auto arcp = arith::FastMathFlagsAttr::get(k.b.getContext(), arith::FastMathFlags::arcp);
    Value root = math::SqrtOp::create(k.b, result.v, afn);
    Value denominator = fma(root, rootFactor, epsilonFactor);
    step = arith::DivFOp::create(k.b, result.m, denominator, arcp);
  }
  if (decoupled)
    step = fma(decay, p, step);
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
