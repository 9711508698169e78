#include "runtime/exec/Executor.h"

#include <algorithm>
#include <utility>

#include "runtime/core/Error.h"
#include "runtime/exec/ExecutorImpl.h"

namespace msamp::runtime {

std::unique_ptr<Executor> Executor::create(LoadedPlan plan, Device &device, Communicator &communicator) {
  return std::make_unique<ExecutorImpl>(std::move(plan), device, communicator);
}

// With the target that the device runs.
static LoadedPlan chosenFor(const Device &device, LoadedPlan loaded) {
  loaded.chosen = device.chooseTarget(targetNames(loaded.plan));
  return loaded;
}

ExecutorImpl::ExecutorImpl(LoadedPlan plan, Device &device, Communicator &communicator)
    : loaded_(chosenFor(device, std::move(plan))), plan_(loaded_.plan), target_(loaded_.target()), device_(device),
      comm_(communicator), state_(plan_, device, communicator.rank(), communicator.size()) {
  allocate();
}

ExecutorImpl::~ExecutorImpl() {
  device_.forgetSequences();
  device_.release(arena_, arenaBytes_);
  if (inputStage_ != inputs_)
    device_.releaseStaging(inputStage_, inputAreas_ * inputArenaBytes_);
  device_.release(inputs_, inputArenaBytes_);
  device_.release(inputsLanding_, inputArenaBytes_);
  device_.release(exchangeBuffer_, exchangeBytes_);
  device_.release(rankScales_, rankScaleBytes());
  if (!device_.hostMemory())
    device_.release(constantData_, constants_.size());
  for (auto &[name, program] : programs_)
    device_.release(program.outputs, program.outputBytes);
}

void *ExecutorImpl::inputHost(unsigned input) {
  return inputStage_ + inputArea_ * inputArenaBytes_ + inputOffsets_.at(input);
}

size_t ExecutorImpl::inputBytes(unsigned input) const { return inputSizes_.at(input); }

void ExecutorImpl::sendInputs() {
  if (!inputsLanding_ || inputsSent_)
    return;
  device_.onLane(Lane::Input);
  device_.waitFor(inputsTaken);
  device_.upload(inputsLanding_, inputStage_ + inputArea_ * inputArenaBytes_, inputArenaBytes_);
  device_.take(inputsArrived);
  device_.onLane(Lane::Compute);
  inputArea_ = (inputArea_ + 1) % inputAreas_;
  inputsSent_ = true;
}

// Recordings of steps know one place; a copy within the device is short.
void ExecutorImpl::takeInputs() {
  sendInputs();
  if (!inputsSent_)
    return;
  device_.waitFor(inputsArrived);
  device_.copyBytes(inputs_, inputsLanding_, inputArenaBytes_);
  device_.take(inputsTaken);
  inputsSent_ = false;
}

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

void ExecutorImpl::run(BoundProgram &program, Turn turn, LossUse use) {
  const bool first = !sitesHaveHistory_;
  // All that the calls below depend on.
  const std::string key = fmt::format("{}{}{}{}{}{}", program.program->name(), first, turn.firstMicroBatch, turn.lastMicroBatch,
      static_cast<int>(use), profiling_);
  const std::vector<const BoundStep *> &steps = program.due[first];
  const auto begin = std::chrono::steady_clock::now();
  const auto count = static_cast<unsigned>(steps.size());
  device_.sequence(key, [&] {
    laneMark_ = count + 1;
    for (unsigned i = 0; i < count; ++i) {
      if (profiling_)
        device_.mark(i);
      runStep(*steps[i], turn);
    }
    if (profiling_)
      device_.mark(count);
    joinExchange(); // a recording ends with all of its lanes joined
    noteLoss(program, use);
  });
  if (profiling_)
    noteTimes(program, steps, turn, begin);
}

void ExecutorImpl::noteTimes(const BoundProgram &program, std::span<const BoundStep *const> steps, Turn turn,
    std::chrono::steady_clock::time_point begin) {
  const auto beside = [&](const BoundStep *step) { return exchanges(*step->step, turn); };
  const auto count = static_cast<unsigned>(steps.size());
  const auto lanes = static_cast<unsigned>(std::count_if(steps.begin(), steps.end(), beside));
  const std::vector<double> marks = device_.marks(count + 1 + 2 * lanes);
  const double offset = std::chrono::duration<double>(begin - profileBegin_).count();
  size_t lane = count + 1;
  for (size_t i = 0; i < count; ++i) {
    size_t from = i, to = i + 1;
    if (beside(steps[i])) {
      from = lane++;
      to = lane++;
    }
    profile_.push_back({program.program, steps[i]->step, offset + marks[from], offset + marks[to], from != i});
  }
}

bool ExecutorImpl::exchanges(const plan::Step &step, Turn turn) const {
  return step.has_exchange() && comm_.size() > 1 && (turn.lastMicroBatch || !step.exchange().last_micro_batch_only());
}

void ExecutorImpl::setProfiling(bool on) {
  profiling_ = on;
  profile_.clear();
  profileBegin_ = std::chrono::steady_clock::now();
}

std::vector<StepTime> ExecutorImpl::takeProfile() {
  profileBegin_ = std::chrono::steady_clock::now();
  return std::exchange(profile_, {});
}

static Window windowOf(const plan::Window &from) {
  Window window;
  window.rank = static_cast<unsigned>(from.size_size());
  for (unsigned d = 0; d < window.rank; ++d) {
    const int i = static_cast<int>(d);
    window.size[d] = from.size(i);
    window.strides[d] = from.strides(i);
    window.low[d] = from.low(i);
    window.high[d] = from.high(i);
    window.dilations[d] = from.dilations(i);
  }
  return window;
}

static ConvArgs convArgs(const plan::Conv &conv, ConvPass pass, const Tensor &x, const Tensor &filter, const Tensor &y) {
  return {pass, x, filter, y, windowOf(conv.window()), conv.groups()};
}

static PoolArgs poolArgs(const plan::Pool &pool, bool gradient, const Tensor &x, const Tensor &y) {
  PoolArgs args;
  args.gradient = gradient;
  args.countPadding = pool.count_padding();
  args.x = x;
  args.y = y;
  args.window = windowOf(pool.window());
  return args;
}

void ExecutorImpl::runStep(const BoundStep &bound, Turn turn) {
  const plan::Step &step = *bound.step;
  const auto &in = bound.inputs, &out = bound.outputs;
  switch (step.kind_case()) {
  case plan::Step::kLaunch: device_.launch(step.launch().kernel(), bound.args); break;
  case plan::Step::kMatmul: {
    MatMulArgs args;
    args.a = in[0];
    args.b = in[1];
    args.c = out[0];
    const plan::MatMul &matmul = step.matmul();
    args.transposeA = matmul.transpose_a();
    args.transposeB = matmul.transpose_b();
    args.scaled = matmul.scaled();
    args.hasAddend = matmul.has_addend();
    args.hasBias = matmul.has_bias();
    size_t next = 2;
    if (args.scaled) {
      args.scaleA = in[next++];
      args.scaleB = in[next++];
    }
    if (args.hasAddend)
      args.addend = in[next++];
    if (args.hasBias)
      args.bias = in[next++];
    if (matmul.quantised()) {
      args.scaleOut = reinterpret_cast<const float *>(in[next].data);
      args.amaxOut = reinterpret_cast<float *>(out[1].data);
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
  case plan::Step::kConv:
    device_.conv(convArgs(step.conv(), ConvPass::Forward, in[0], in[1], out[0]));
    break;
  case plan::Step::kConvDgrad:
    device_.conv(convArgs(step.conv_dgrad(), ConvPass::ImageGradient, out[0], in[1], in[0]));
    break;
  case plan::Step::kConvWgrad:
    device_.conv(convArgs(step.conv_wgrad(), ConvPass::FilterGradient, in[0], out[0], in[1]));
    break;
  case plan::Step::kMaxPool: {
    PoolArgs args = poolArgs(step.max_pool(), false, in[0], out[0]);
    args.tap = out[1];
    device_.pool(args);
    break;
  }
  case plan::Step::kMaxPoolGrad: {
    PoolArgs args = poolArgs(step.max_pool_grad(), true, out[0], in[0]);
    args.tap = in[1];
    device_.pool(args);
    break;
  }
  case plan::Step::kAvgPool:
  case plan::Step::kAvgPoolGrad: {
    const bool gradient = step.has_avg_pool_grad();
    PoolArgs args = poolArgs(gradient ? step.avg_pool_grad() : step.avg_pool(), gradient, gradient ? out[0] : in[0],
        gradient ? in[0] : out[0]);
    args.largest = false;
    device_.pool(args);
    break;
  }
  case plan::Step::kScatterAdd: device_.scatterAdd(in[0], in[1], out[0]); break;
  case plan::Step::kGather: device_.gather(in[0], in[1], step.gather().axis(), out[0]); break;
  case plan::Step::kCopy: device_.copy(in[0], out[0]); break;
  case plan::Step::kFill: device_.fill(out[0], step.fill().value()); break;
  case plan::Step::kAccumulate: device_.accumulate(in[0], out[0], turn.firstMicroBatch); break;
  case plan::Step::kCalibrate: device_.calibrate(state_.tables, bound.scalars, bound.entries); break;
  case plan::Step::kRecordAmax: device_.recordAmax(state_.tables, bound.scalars, bound.entries); break;
  case plan::Step::kStoreGradScale: device_.storeGradScales(state_.tables, bound.scalars, bound.entries); break;
  case plan::Step::kExchange:
    if (exchanges(step, turn))
      exchange(step.exchange().bucket(), step.exchange().zero());
    break;
  case plan::Step::kGradNorm: gradNorm(); break;
  case plan::Step::kUpdate: updateClass(step.update().state_class(), step.update().optimizer()); break;
  case plan::Step::kGatherWeights: gatherWeights(step.gather_weights().state_class()); break;
  case plan::Step::kUpdateSites: pushSites(); break;
  case plan::Step::KIND_NOT_SET: failInternal("step {} is of no known kind", step.name());
  }
}

void ExecutorImpl::noteLoss(const BoundProgram &program, LossUse use) {
  for (const plan::Output &output : program.program->outputs())
    if (output.name() == "loss") {
      Tensor loss;
      loss.data = program.outputs + output.offset();
      loss.type = static_cast<Type>(output.type());
      device_.noteLoss(state_.tables, loss, use);
      return;
    }
}

StepState ExecutorImpl::readState() const {
  StepState state;
  device_.download(&state, state_.tables.state, sizeof state);
  return state;
}

StepState ExecutorImpl::endOfStep() {
  const StepState state = readState();
  sitesHaveHistory_ = state.sitesHaveHistory != 0;
  applied_ = state.applied;
  health_.saturated = state.saturated;
  health_.nonFinite = state.nonFinite;
  health_.unused = state.unused;
  health_.skippedSteps = state.skippedSteps;
  return state;
}

float ExecutorImpl::lastLoss() const { return readState().lastLoss; }

void ExecutorImpl::microStep(unsigned index, unsigned count) {
  takeInputs();
  run(bound("micro_step"), {index == 0, index + 1 == count}, index == 0 ? LossUse::First : LossUse::Next);
}

StepResult ExecutorImpl::update(const Hyper &hyper, const std::function<void()> &meanwhile) {
  device_.upload(&state_.tables.state->hyper, &hyper, sizeof hyper);
  run(bound("update"), {});
  meanwhile();
  const StepState state = endOfStep();
  StepResult result;
  result.loss = state.loss;
  result.gradNorm = state.gradNorm;
  result.clipFactor = state.clipFactor;
  result.skipped = state.skipped != 0;
  return result;
}

bool ExecutorImpl::calibrateOnly() {
  for (const BoundStep &step : bound("update").steps)
    if (step.step->has_exchange() || step.step->has_update_sites())
      runStep(step, {});
  joinExchange();
  return endOfStep().sitesChanged != 0;
}

void ExecutorImpl::eval() {
  takeInputs();
  run(bound("eval"), {});
}

} // namespace msamp::runtime
