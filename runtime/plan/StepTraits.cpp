#include "runtime/plan/StepTraits.h"

#include <algorithm>

#include "runtime/core/Error.h"

namespace msamp::runtime {

namespace {

template <class Shape> std::string shapeText(const Shape &shape) { return fmt::format("{}", fmt::join(shape, "x")); }

Type typeOf(const plan::Operand &operand) { return static_cast<Type>(operand.type()); }

std::string matmulText(const plan::Step &step) {
  const plan::Operand &a = step.inputs(0), &b = step.inputs(1), &c = step.outputs(0);
  const int rank = c.shape_size(), last = a.shape_size() - 1;
  const int64_t k = rank >= 2 && last >= 1 ? a.shape(step.matmul().transpose_a() ? last - 1 : last) : 0;
  int64_t batch = 1;
  for (int i = 0; i + 2 < rank; ++i)
    batch *= c.shape(i);
  return fmt::format("matmul {}{}x{}x{} {} {} -> {}", batch > 1 ? fmt::format("{} x ", batch) : "", c.shape(rank - 2),
                     c.shape(rank - 1), k, nameOf(typeOf(a)), nameOf(typeOf(b)), nameOf(typeOf(c)));
}

// Windows tell convolutions of like tensors apart.
std::string convText(const plan::Step &step) {
  const plan::Conv &conv = step.has_conv() ? step.conv() : step.has_conv_dgrad() ? step.conv_dgrad() : step.conv_wgrad();
  std::string text = shapeText(conv.window().size());
  if (std::ranges::any_of(conv.window().strides(), [](int64_t s) { return s > 1; }))
    text += fmt::format(" by {}", shapeText(conv.window().strides()));
  if (std::ranges::any_of(conv.window().dilations(), [](int64_t d) { return d > 1; }))
    text += fmt::format(" dilated {}", shapeText(conv.window().dilations()));
  return conv.groups() > 1 ? fmt::format("{} in {} groups", text, conv.groups()) : text;
}

// Of a class's flat space, on one of `ranks`.
uint64_t updateBytes(const plan::Plan &plan, const plan::StateClass &state, unsigned ranks) {
  auto size = [](plan::Type type) { return static_cast<uint64_t>(sizeOf(static_cast<Type>(type))); };
  const uint64_t share = plan.zero() > 0 ? state.elements() / ranks : state.elements();
  uint64_t bytes = share * (size(state.grad()) + 2 * (size(state.m()) + size(state.v()) + size(state.master())));
  for (plan::Type type : {state.m(), state.v()})
    bytes += isBlockScaled(static_cast<Type>(type)) ? share / blockSize * 2 * sizeof(float) : 0;
  // A weight beside a master is only written.
  return bytes + share * size(state.weight()) * (state.master() == plan::NONE ? 2 : 1);
}

} // namespace

StepKind kindOf(const plan::Step &step) {
  switch (step.kind_case()) {
  case plan::Step::kMatmul: return StepKind::Gemm;
  case plan::Step::kConv: case plan::Step::kConvDgrad: case plan::Step::kConvWgrad: return StepKind::Convolution;
  case plan::Step::kAttention: case plan::Step::kAttentionGrad: return StepKind::Attention;
  case plan::Step::kGradNorm: case plan::Step::kUpdate: case plan::Step::kUpdateSites: return StepKind::Optimizer;
  case plan::Step::kExchange: case plan::Step::kGatherWeights: return StepKind::Collective;
  default: return StepKind::RowKernel;
  }
}

std::string fieldOf(const plan::Step &step) {
  const auto *field = plan::Step::descriptor()->FindFieldByNumber(static_cast<int>(step.kind_case()));
  return field ? std::string(field->name()) : "unknown";
}

std::string shapeOf(const plan::Plan &plan, const plan::Step &step) {
  if (step.has_matmul() && step.inputs_size() >= 2 && step.outputs_size() >= 1 && step.outputs(0).shape_size() >= 2)
    return matmulText(step);
  std::string text = step.has_launch() ? step.name() : fieldOf(step);
  if (kindOf(step) == StepKind::Convolution)
    text += " " + convText(step);
  if (step.has_update())
    return fmt::format("{} {}", text, plan.classes(static_cast<int>(step.update().state_class())).name());
  if (step.has_exchange())
    return fmt::format("{} {}", text, step.name());
  // The largest of what it reads and what it writes say what it is about.
  auto largest = [](const auto &operands) -> const plan::Operand * {
    const plan::Operand *found = nullptr;
    uint64_t most = 0;
    for (const plan::Operand &operand : operands) {
      uint64_t bytes = sizeOf(typeOf(operand));
      for (int64_t extent : operand.shape())
        bytes *= static_cast<uint64_t>(extent);
      if (!found || bytes > most) {
        found = &operand;
        most = bytes;
      }
    }
    return found;
  };
  if (const plan::Operand *in = largest(step.inputs()))
    text += fmt::format(" {} {}", shapeText(in->shape()), nameOf(typeOf(*in)));
  if (const plan::Operand *out = largest(step.outputs()))
    text += fmt::format(" -> {} {}", shapeText(out->shape()), nameOf(typeOf(*out)));
  return text;
}

uint64_t bytesOf(const plan::Plan &plan, const plan::Step &step, unsigned ranks) {
  if (step.has_update())
    return updateBytes(plan, plan.classes(static_cast<int>(step.update().state_class())), ranks);
  if (step.has_grad_norm()) {
    uint64_t bytes = 0;
    for (const plan::StateClass &state : plan.classes())
      if (!state.update_kernel().empty())
        bytes += state.elements() * sizeOf(static_cast<Type>(state.grad())) / (plan.zero() > 0 ? ranks : 1);
    return bytes;
  }
  if (step.has_exchange()) {
    const plan::Bucket &bucket = plan.buckets(static_cast<int>(step.exchange().bucket()));
    const plan::StateClass &state = plan.classes(static_cast<int>(bucket.state_class()));
    const plan::Type wire = state.wire() == plan::NONE ? state.grad() : state.wire();
    // Sent and received: all but the own shard, there and back.
    return ranks == 1 ? 0 : 2 * bucket.elements() * sizeOf(static_cast<Type>(wire)) * (ranks - 1) / ranks;
  }
  return step.bytes();
}

Type operandType(const plan::Step &step) {
  if (step.inputs_size() < 2)
    return Type::F32;
  const Type a = typeOf(step.inputs(0)), b = typeOf(step.inputs(1));
  return isFp8(a) && isFp8(b) ? a : sizeOf(a) <= sizeOf(b) ? b : a;
}

} // namespace msamp::runtime
