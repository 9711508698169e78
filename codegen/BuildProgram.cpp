// Programs of a plan: buffers, outputs, steps and their operands.
#include "codegen/Nodes.h"
#include "codegen/PlanBuilder.h"
#include "runtime/core/Error.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

namespace msamp::codegen {
using namespace mlir;
using runtime::failInternal;

// Names of nodes kept with a step; more than that says nothing to a reader.
constexpr size_t maxNodes = 16;

static uint32_t lookUp(const llvm::StringMap<uint32_t> &index, StringRef name, const char *what) {
  auto found = index.find(name);
  if (found == index.end())
    failInternal("a step refers to {} {}, which the module does not have", what, name.str());
  return found->second;
}

plan::Operand PlanBuilder::operand(ProgramState &state, Value memory) {
  plan::Operand result;
  auto [base, offset] = planir::baseOf(memory);
  if (auto buffer = base.getDefiningOp<planir::BufferOp>()) {
    result.set_kind(plan::Operand::BUFFER);
    result.set_index(state.buffers.lookup(base));
  } else {
    auto place = base.getDefiningOp<planir::PlaceOp>();
    StringRef name = place.getName();
    auto set = [&](plan::Operand::Kind kind, const Index &index, const char *what) {
      result.set_kind(kind);
      result.set_index(lookUp(index, name, what));
    };
    switch (place.getKind()) {
    case planir::PlaceKind::Input:
      set(plan::Operand::INPUT, inputIndex, "input");
      break;
    case planir::PlaceKind::Output:
      set(plan::Operand::OUTPUT, state.outputs, "output");
      break;
    case planir::PlaceKind::Constant:
      set(plan::Operand::CONSTANT, constantIndex, "constant");
      break;
    case planir::PlaceKind::Weight:
      set(plan::Operand::WEIGHT, parameterIndex, "parameter");
      break;
    case planir::PlaceKind::Grad:
      set(plan::Operand::GRAD, parameterIndex, "parameter");
      break;
    case planir::PlaceKind::WeightScale:
      set(plan::Operand::WEIGHT_SCALE, parameterIndex, "parameter");
      break;
    case planir::PlaceKind::WeightAmax:
      set(plan::Operand::WEIGHT_AMAX, parameterIndex, "parameter");
      break;
    case planir::PlaceKind::GradScale:
      set(plan::Operand::GRAD_SCALE, parameterIndex, "parameter");
      break;
    case planir::PlaceKind::SiteScale:
      set(plan::Operand::SITE_SCALE, siteIndex, "site");
      break;
    }
  }
  auto type = cast<MemRefType>(memory.getType());
  result.set_offset_bytes(static_cast<uint64_t>(offset));
  result.set_type(planType(type.getElementType()));
  for (int64_t size : type.getShape())
    result.add_shape(size);
  if (!type.getLayout().isIdentity()) {
    SmallVector<int64_t> strides;
    int64_t unused;
    if (failed(type.getStridesAndOffset(strides, unused)))
      failInternal("an operand has no strides");
    for (int64_t stride : strides)
      result.add_strides(stride);
  }
  return result;
}

static void setWindow(plan::Window &to, WindowAttr window) {
  for (int64_t d = 0; d < window.rank(); ++d) {
    to.add_size(window.getSize()[d]);
    to.add_strides(window.getStrides()[d]);
    to.add_low(window.getLow()[d]);
    to.add_high(window.getHigh()[d]);
    to.add_dilations(window.getDilations()[d]);
  }
}

void PlanBuilder::setKind(plan::Step &to, Operation *step) {
  auto sites = [&](ArrayAttr names, auto &list) {
    for (auto name : names.getAsRange<FlatSymbolRefAttr>())
      list.add_sites(lookUp(siteIndex, name.getValue(), "site"));
  };
  auto stateClass = [&](uint64_t number) {
    return lookUp(classes, stringifyStateClass(static_cast<StateClass>(number)), "state class");
  };
  llvm::TypeSwitch<Operation *>(step)
      .Case<planir::LaunchOp>([&](planir::LaunchOp op) {
        to.mutable_launch()->set_kernel(lookUp(kernelIndex, op.getKernel(), "kernel"));
        to.set_name(op.getKernel().str());
      })
      .Case<planir::MatMulOp>([&](planir::MatMulOp op) {
        auto &m = *to.mutable_matmul();
        m.set_transpose_a(op.getTransposeA());
        m.set_transpose_b(op.getTransposeB());
        m.set_scaled(op.getScaled());
        m.set_has_addend(op.getHasAddend());
        m.set_has_bias(op.getHasBias());
        m.set_quantised(op.getQuantised());
        m.set_fp8_values(op.getFp8Values());
      })
      .Case<planir::AttentionOp, planir::AttentionGradOp>([&](auto op) {
        auto fill = [&](auto &a) {
          a.set_scale(op.getScale().convertToDouble());
          a.set_causal(op.getCausal());
          a.set_has_bias(op.getBias());
        };
        if (isa<planir::AttentionOp>(op.getOperation()))
          fill(*to.mutable_attention());
        else
          fill(*to.mutable_attention_grad());
      })
      .Case<planir::ConvOp, planir::ConvDgradOp, planir::ConvWgradOp>([&](auto op) {
        using Op = decltype(op);
        plan::Conv &conv = std::is_same_v<Op, planir::ConvOp>        ? *to.mutable_conv()
                           : std::is_same_v<Op, planir::ConvDgradOp> ? *to.mutable_conv_dgrad()
                                                                     : *to.mutable_conv_wgrad();
        setWindow(*conv.mutable_window(), op.getWindow());
        conv.set_groups(static_cast<uint32_t>(op.getGroups()));
      })
      .Case<planir::MaxPoolOp>([&](auto op) { setWindow(*to.mutable_max_pool()->mutable_window(), op.getWindow()); })
      .Case<planir::MaxPoolGradOp>(
          [&](auto op) { setWindow(*to.mutable_max_pool_grad()->mutable_window(), op.getWindow()); })
      .Case<planir::AvgPoolOp, planir::AvgPoolGradOp>([&](auto op) {
        plan::Pool &pool = std::is_same_v<decltype(op), planir::AvgPoolOp> ? *to.mutable_avg_pool()
                                                                           : *to.mutable_avg_pool_grad();
        setWindow(*pool.mutable_window(), op.getWindow());
        pool.set_count_padding(op.getCountPadding());
      })
      .Case<planir::GatherOp>([&](auto op) { to.mutable_gather()->set_axis(static_cast<uint32_t>(op.getAxis())); })
      .Case<planir::ScatterAddOp>([&](auto) { to.mutable_scatter_add(); })
      .Case<planir::CopyOp>([&](auto) { to.mutable_copy(); })
      .Case<planir::FillOp>([&](auto op) { to.mutable_fill()->set_value(op.getValue().convertToDouble()); })
      .Case<planir::AccumulateOp>([&](auto) { to.mutable_accumulate(); })
      .Case<planir::CalibrateOp>([&](auto op) { sites(op.getSites(), *to.mutable_calibrate()); })
      .Case<planir::RecordAmaxOp>([&](auto op) { sites(op.getSites(), *to.mutable_record_amax()); })
      .Case<planir::StoreGradScaleOp>([&](planir::StoreGradScaleOp op) {
        for (auto name : op.getParams().getAsRange<FlatSymbolRefAttr>())
          to.mutable_store_grad_scale()->add_parameters(lookUp(parameterIndex, name.getValue(), "parameter"));
      })
      .Case<planir::ExchangeOp>([&](planir::ExchangeOp op) {
        to.mutable_exchange()->set_bucket(lookUp(bucketIndex, op.getBucket(), "bucket"));
        to.mutable_exchange()->set_zero(static_cast<uint32_t>(op.getZero()));
        to.set_name(op.getBucket().str());
      })
      .Case<planir::GradNormOp>([&](auto) { to.mutable_grad_norm(); })
      .Case<planir::UpdateOp>([&](planir::UpdateOp op) {
        to.mutable_update()->set_state_class(stateClass(op.getStateClass()));
        to.mutable_update()->set_optimizer(op.getOptimizer().str());
      })
      .Case<planir::GatherWeightsOp>(
          [&](auto op) { to.mutable_gather_weights()->set_state_class(stateClass(op.getStateClass())); })
      .Case<planir::UpdateSitesOp>([&](auto) { to.mutable_update_sites(); })
      .Default([](Operation *op) { failInternal("a plan has no step for {}", op->getName().getStringRef().str()); });
  if (to.name().empty())
    to.set_name(step->getName().stripDialect().str());
}

void PlanBuilder::addStep(ProgramState &state, planir::StepOpInterface step) {
  plan::Step &to = *state.program->add_steps();
  to.set_when(step.getFirst() ? plan::Step::FIRST : plan::Step::ALWAYS);
  Nodes nodes = nodesOf(step->getLoc(), maxNodes);
  for (std::string &name : nodes.names)
    to.add_nodes(std::move(name));
  to.set_backward(nodes.backward);
  for (Value input : step.getInputs())
    *to.add_inputs() = operand(state, input);
  for (Value output : step.getOutputs())
    *to.add_outputs() = operand(state, output);
  if (!step.getWorkspace().empty())
    *to.mutable_workspace() = operand(state, step.getWorkspace().front());
  to.set_bytes(step.getBytes());
  to.set_flops(step.getFlops());
  setKind(to, step);
}

void PlanBuilder::addProgram(planir::ProgramOp op) {
  plan::Program &program = *target.add_programs();
  ProgramState state;
  state.program = &program;
  program.set_name(op.getSymName().str());
  program.set_arena_bytes(op.getArena());
  program.set_arena_workspace_bytes(op.getWorkspace());
  llvm::StringMap<MemRefType> outputTypes;
  for (auto place : op.getBody().front().getOps<planir::PlaceOp>())
    if (place.getKind() == planir::PlaceKind::Output)
      outputTypes[place.getName()] = cast<MemRefType>(place.getMemory().getType());
  uint64_t offset = 0;
  for (auto name : op.getOutputs().getAsValueRange<StringAttr>()) {
    MemRefType type = outputTypes.lookup(name);
    if (!type)
      failInternal("no step of program {} writes output {}", program.name(), name.str());
    plan::Output &output = *program.add_outputs();
    output.set_name(name.str());
    output.set_type(planType(type.getElementType()));
    for (int64_t size : type.getShape())
      output.add_shape(size);
    output.set_offset(offset);
    output.set_bytes(static_cast<uint64_t>(planir::extentInBytes(type)));
    offset = llvm::alignTo(offset + output.bytes(), 64);
    state.outputs[name] = static_cast<uint32_t>(program.outputs_size() - 1);
  }
  for (auto buffer : op.getBody().front().getOps<planir::BufferOp>()) {
    plan::Buffer &to = *program.add_buffers();
    state.buffers[buffer.getMemory()] = static_cast<uint32_t>(program.buffers_size() - 1);
    to.set_name(buffer.getName().str());
    to.set_offset(*buffer.getOffset());
    to.set_bytes(static_cast<uint64_t>(buffer.getSizeInBytes()));
    to.set_role(buffer.getRole() == planir::BufferRole::Workspace ? plan::WORKSPACE : plan::ACTIVATIONS);
    to.set_first_step(static_cast<uint32_t>((*buffer.getLifetime())[0]));
    to.set_last_step(static_cast<uint32_t>((*buffer.getLifetime())[1]));
  }
  for (auto step : op.getBody().front().getOps<planir::StepOpInterface>())
    addStep(state, step);
}

} // namespace msamp::codegen
