// Arenas, and the addresses of what steps read and write.
#include <algorithm>

#include "runtime/core/Error.h"
#include "runtime/exec/ExecutorImpl.h"
#include "runtime/plan/ExchangeLayout.h"
#include "runtime/plan/MemoryTable.h"

namespace msamp::runtime {

namespace {

template <class Shape> size_t bytesOf(plan::Type type, const Shape &shape) {
  size_t bytes = sizeOf(static_cast<Type>(type));
  for (int64_t d : shape)
    bytes *= static_cast<size_t>(d);
  return bytes;
}

size_t round64(size_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace

void ExecutorImpl::allocate() {
  for (const plan::Program &program : target_.programs()) {
    if (program.arena_bytes() > arenaBytes_) {
      arenaBytes_ = program.arena_bytes();
      arenaWorkspace_ = program.arena_workspace_bytes();
    }
  }
  // Programs run one after the other, so they share an arena.
  arena_ = static_cast<std::byte *>(device_.allocate(arenaBytes_));
  for (const plan::Input &input : plan_.inputs()) {
    inputOffsets_.push_back(inputArenaBytes_);
    inputSizes_.push_back(bytesOf(input.type(), input.shape()));
    inputArenaBytes_ += round64(inputSizes_.back());
  }
  inputs_ = static_cast<std::byte *>(device_.allocate(inputArenaBytes_));
  inputStage_ = inputs_;
  if (!device_.hostMemory()) {
    // An upload waits until the inputs before it have been taken: each of a step has its own area, and so has the first of
    // the next.
    inputAreas_ = std::max(1u, plan_.accumulate()) + 1;
    inputStage_ = static_cast<std::byte *>(device_.allocateStaging(inputAreas_ * inputArenaBytes_));
    inputsLanding_ = static_cast<std::byte *>(device_.allocate(inputArenaBytes_));
    device_.take(inputsTaken); // zeroed before the first ones arrive
  }
  exchangeBytes_ = exchangeBytes(plan_, comm_.size());
  if (exchangeBytes_ > 0) {
    exchangeBuffer_ = static_cast<std::byte *>(device_.allocate(exchangeBytes_));
    rankScales_ = static_cast<float *>(device_.allocate(size_t{comm_.size()} * state_.tables.parameters * sizeof(float)));
  }
  if (target_.constants_size() > 0) {
    const auto path = loaded_.directory / constantsPath(target_);
    constants_ = MappedFile(path);
    for (const plan::Constant &constant : target_.constants())
      if (constant.offset() > constants_.size() || constant.bytes() > constants_.size() - constant.offset())
        failData("{}: constant {} reaches beyond the file's {} bytes; compile the plan again", path.string(), constant.name(),
            constants_.size());
  }
  constantData_ = const_cast<std::byte *>(constants_.data());
  if (!device_.hostMemory() && constants_.size() > 0) {
    constantData_ = static_cast<std::byte *>(device_.allocate(constants_.size()));
    device_.upload(constantData_, constants_.data(), constants_.size());
  }
  device_.bindTables(state_.tables);
  loadKernels();
  if (loaded_.program("micro_step"))
    bound("micro_step");
}

static KernelEntry entryOf(const plan::Entry &entry) {
  return {entry.symbol(), entry.grid_x(), entry.grid_y(), entry.block(), entry.shared_bytes()};
}

void ExecutorImpl::loadKernels() {
  std::vector<KernelRef> references;
  for (const plan::Kernel &kernel : target_.kernels()) {
    KernelRef &reference = references.emplace_back(KernelRef{kernel.symbol(), kernel.chunks(), kernel.finish(), {}});
    for (const plan::Entry &entry : kernel.entries())
      reference.entries.push_back(entryOf(entry));
  }
  std::vector<std::string> files;
  for (const plan::Part &part : plan_.parts())
    if (part.path().starts_with("kernels/" + target_.name() + "."))
      files.push_back(std::filesystem::absolute(loaded_.directory / part.path()).string());
  device_.loadKernels(files, references);
  for (int c = 0; c < plan_.classes_size(); ++c) {
    UpdateKernelRef kernel;
    if (c < target_.updates_size())
      kernel = {entryOf(target_.updates(c).entry()), target_.updates(c).blocks_per_cta()};
    kernel.entry.symbol = plan_.classes(c).update_kernel();
    updateKernels_.push_back(kernel.entry.symbol.empty() ? 0 : device_.loadUpdateKernel(kernel));
  }
}

std::byte *ExecutorImpl::addressOf(const BoundProgram &program, const plan::Operand &operand) const {
  const auto index = static_cast<int>(operand.index());
  auto inClass = [&](std::byte *base, Type type) {
    return base + plan_.parameters(index).offset() * sizeOf(type);
  };
  auto entry = [&](float *table) { return reinterpret_cast<std::byte *>(table + index); };
  std::byte *base = nullptr;
  switch (operand.kind()) {
  case plan::Operand::BUFFER: base = arena_ + program.program->buffers(index).offset(); break;
  case plan::Operand::INPUT: base = inputs_ + inputOffsets_[static_cast<size_t>(index)]; break;
  // On the CPU mapped read-only: a step that wrote to it would be stopped by the processor.
  case plan::Operand::CONSTANT: base = constantData_ + target_.constants(index).offset(); break;
  case plan::Operand::WEIGHT: {
    const ClassState &state = state_.classes[plan_.parameters(index).state_class()];
    base = inClass(state.weight, state.weightType);
    break;
  }
  case plan::Operand::GRAD: {
    const ClassState &state = state_.classes[plan_.parameters(index).state_class()];
    base = inClass(state.grad, state.gradType);
    break;
  }
  case plan::Operand::WEIGHT_SCALE: base = entry(state_.tables.weightScale); break;
  case plan::Operand::WEIGHT_AMAX: base = entry(state_.tables.weightAmax); break;
  case plan::Operand::GRAD_SCALE: base = entry(state_.tables.gradScale); break;
  case plan::Operand::SITE_SCALE: base = entry(state_.tables.siteScale); break;
  case plan::Operand::OUTPUT: base = program.outputs + program.program->outputs(index).offset(); break;
  default: failInternal("operand of unknown kind {}", static_cast<int>(operand.kind()));
  }
  return base + operand.offset_bytes();
}

Tensor ExecutorImpl::tensorOf(const BoundProgram &program, const plan::Operand &operand) const {
  Tensor tensor;
  tensor.data = addressOf(program, operand);
  tensor.type = static_cast<Type>(operand.type());
  tensor.rank = static_cast<unsigned>(operand.shape_size());
  int64_t stride = 1;
  for (unsigned d = tensor.rank; d-- > 0;) {
    tensor.shape[d] = operand.shape(static_cast<int>(d));
    tensor.strides[d] = operand.strides_size() > 0 ? operand.strides(static_cast<int>(d)) : stride;
    stride *= tensor.shape[d];
  }
  return tensor;
}

void ExecutorImpl::bind(BoundProgram &program) {
  for (const plan::Output &output : program.program->outputs())
    program.outputBytes = std::max<size_t>(program.outputBytes, output.offset() + output.bytes());
  program.outputs = static_cast<std::byte *>(device_.allocate(program.outputBytes));
  for (const plan::Step &step : program.program->steps()) {
    BoundStep bound;
    bound.step = &step;
    for (const plan::Operand &operand : step.inputs())
      bound.inputs.push_back(tensorOf(program, operand));
    for (const plan::Operand &operand : step.outputs())
      bound.outputs.push_back(tensorOf(program, operand));
    if (step.has_launch()) {
      for (const Tensor &tensor : bound.inputs)
        bound.args.push_back(tensor.data);
      for (const Tensor &tensor : bound.outputs)
        bound.args.push_back(tensor.data);
      if (step.has_workspace())
        bound.args.push_back(addressOf(program, step.workspace()));
    }
    auto scalars = [&](const auto &entries) {
      for (const Tensor &tensor : bound.inputs)
        bound.scalars.push_back(reinterpret_cast<const float *>(tensor.data));
      bound.entries.assign(entries.begin(), entries.end());
    };
    if (step.has_calibrate())
      scalars(step.calibrate().sites());
    if (step.has_record_amax())
      scalars(step.record_amax().sites());
    if (step.has_store_grad_scale())
      scalars(step.store_grad_scale().parameters());
    program.steps.push_back(std::move(bound));
  }
  for (const BoundStep &step : program.steps) {
    program.due[1].push_back(&step);
    if (step.step->when() == plan::Step::ALWAYS)
      program.due[0].push_back(&step);
  }
}

RoleBytes ExecutorImpl::memory() const {
  RoleBytes bytes = state_.bytes();
  auto add = [&](Role role, size_t count) { bytes[static_cast<size_t>(role)] += count; };
  add(Role::Activations, arenaBytes_ - arenaWorkspace_);
  add(Role::Workspace, arenaWorkspace_ + exchangeBytes_ + rankScaleBytes());
  for (const auto &[name, program] : programs_)
    add(Role::Activations, program.outputBytes);
  add(Role::Inputs, (inputsLanding_ ? 2 : 1) * inputArenaBytes_);
  add(Role::Constants, constants_.size());
  return bytes;
}

const void *ExecutorImpl::address(const std::string &program, const plan::Operand &operand) const {
  auto it = programs_.find(program);
  if (it == programs_.end())
    failInternal("program {} has not run yet", program);
  return addressOf(it->second, operand);
}

} // namespace msamp::runtime
