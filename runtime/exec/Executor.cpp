#include "runtime/exec/Executor.h"

#include <cmath>

#include "runtime/core/Error.h"
#include "runtime/exec/ExecutorImpl.h"

namespace msamp::runtime {

std::unique_ptr<Executor> Executor::create(LoadedPlan plan, Device &device, Communicator &communicator) {
  return std::make_unique<ExecutorImpl>(std::move(plan), device, communicator);
}

ExecutorImpl::ExecutorImpl(LoadedPlan plan, Device &device, Communicator &communicator)
    : loaded_(std::move(plan)), plan_(loaded_.plan), device_(device), comm_(communicator),
      state_(plan_, device, communicator.rank(), communicator.size()) {
  allocate();
}

ExecutorImpl::~ExecutorImpl() {
  device_.release(arena_, arenaBytes_);
  device_.release(inputs_, inputArenaBytes_);
  device_.release(exchangeBuffer_, exchangeBytes_);
  for (auto &[name, program] : programs_)
    device_.release(program.outputs, program.outputBytes);
}

void *ExecutorImpl::inputHost(unsigned input) { return inputs_ + inputOffsets_.at(input); }

size_t ExecutorImpl::inputBytes(unsigned input) const { return inputSizes_.at(input); }

BoundProgram &ExecutorImpl::bound(const std::string &name) {
  auto it = programs_.find(name);
  if (it == programs_.end()) {
    const plan::Program *program = loaded_.program(name);
    if (!program)
      failData("{}: the plan has no program {}; compile it again", loaded_.directory.string(), name);
    it = programs_.emplace(name, BoundProgram()).first;
    it->second.program = program;
    bind(it->second);
  }
  return it->second;
}

void ExecutorImpl::run(BoundProgram &program, Control &control) {
  for (const BoundStep &step : program.steps)
    if (step.step->when() == plan::Step::ALWAYS || !sitesHaveHistory_)
      runStep(step, control);
}

void ExecutorImpl::runStep(const BoundStep &bound, Control &control) {
  const plan::Step &step = *bound.step;
  const auto &in = bound.inputs, &out = bound.outputs;
  switch (step.kind_case()) {
  case plan::Step::kLaunch: device_.launch(step.launch().kernel(), bound.args); break;
  case plan::Step::kMatmul: {
    MatMulArgs args;
    args.a = in[0];
    args.b = in[1];
    args.c = out[0];
    args.transposeA = step.matmul().transpose_a();
    args.transposeB = step.matmul().transpose_b();
    args.scaled = step.matmul().scaled();
    if (args.scaled) {
      args.scaleA = in[2];
      args.scaleB = in[3];
    }
    device_.matmul(args);
    break;
  }
  case plan::Step::kAttention: {
    AttentionArgs args;
    args.q = in[0];
    args.k = in[1];
    args.v = in[2];
    args.o = out[0];
    args.lse = out[1];
    args.hasBias = step.attention().has_bias();
    if (args.hasBias)
      args.bias = in[3];
    args.scale = step.attention().scale();
    args.causal = step.attention().causal();
    device_.attention(args);
    break;
  }
  case plan::Step::kAttentionGrad: {
    AttentionArgs args;
    args.dO = in[0];
    args.q = in[1];
    args.k = in[2];
    args.v = in[3];
    args.o = in[4];
    args.lse = in[5];
    args.hasBias = step.attention_grad().has_bias();
    if (args.hasBias)
      args.bias = in[6];
    args.scale = step.attention_grad().scale();
    args.causal = step.attention_grad().causal();
    args.dQ = out[0];
    args.dK = out[1];
    args.dV = out[2];
    device_.attentionGrad(args);
    break;
  }
  case plan::Step::kScatterAdd: device_.scatterAdd(in[0], in[1], out[0]); break;
  case plan::Step::kGather: device_.gather(in[0], in[1], step.gather().axis(), out[0]); break;
  case plan::Step::kCopy: device_.copy(in[0], out[0]); break;
  case plan::Step::kFill: device_.fill(out[0], step.fill().value()); break;
  case plan::Step::kAccumulate: device_.accumulate(in[0], out[0], control.firstMicroBatch); break;
  case plan::Step::kCalibrate: calibrate(bound); break;
  case plan::Step::kRecordAmax: recordAmax(bound); break;
  case plan::Step::kStoreGradScale:
    for (size_t i = 0; i < in.size(); ++i)
      state_.gradScale[step.store_grad_scale().parameters(static_cast<int>(i))] = *reinterpret_cast<const float *>(in[i].data);
    break;
  case plan::Step::kExchange:
    if (control.lastMicroBatch || !step.exchange().last_micro_batch_only())
      exchange(step.exchange().bucket(), step.exchange().zero());
    break;
  case plan::Step::kGradNorm: gradNorm(control); break;
  case plan::Step::kUpdate: updateClass(step.update().state_class(), step.update().optimizer(), control); break;
  case plan::Step::kGatherWeights: gatherWeights(step.gather_weights().state_class()); break;
  case plan::Step::kUpdateSites: updateSites(control); break;
  case plan::Step::KIND_NOT_SET: failInternal("step {} is of no known kind", step.name());
  }
}

void ExecutorImpl::noteLoss(const BoundProgram &program) {
  for (const plan::Output &output : program.program->outputs())
    if (output.name() == "loss") {
      device_.decode(static_cast<Type>(output.type()), program.outputs + output.offset(), &lastLoss_, 1);
      return;
    }
}

void ExecutorImpl::microStep(unsigned index, unsigned count) {
  if (index == 0) {
    lossSum_ = 0;
    lossCount_ = 0;
  }
  Control control;
  control.firstMicroBatch = index == 0;
  control.lastMicroBatch = index + 1 == count;
  BoundProgram &program = bound("micro_step");
  run(program, control);
  noteLoss(program);
  lossSum_ += lastLoss_;
  ++lossCount_;
}

StepResult ExecutorImpl::update(const Hyper &hyper) {
  Control control;
  control.hyper = &hyper;
  run(bound("update"), control);
  if (control.result.skipped)
    ++health_.skippedSteps;
  return control.result;
}

bool ExecutorImpl::calibrateOnly() {
  Control control;
  for (const BoundStep &step : bound("update").steps)
    if (step.step->has_exchange() || step.step->has_update_sites())
      runStep(step, control);
  return control.sitesChanged;
}

void ExecutorImpl::eval() {
  Control control;
  BoundProgram &program = bound("eval");
  run(program, control);
  noteLoss(program);
}

} // namespace msamp::runtime
