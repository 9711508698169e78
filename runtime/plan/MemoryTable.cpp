// The arithmetic of the memory table.
#include "runtime/plan/MemoryTable.h"

#include <algorithm>
#include <vector>

#include "runtime/device/StepState.h"
#include "runtime/plan/ExchangeLayout.h"

namespace msamp::runtime {

namespace {

uint64_t round64(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

uint64_t elementsOf(const plan::Parameter &parameter) {
  uint64_t n = 1;
  for (int64_t d : parameter.shape())
    n *= static_cast<uint64_t>(d);
  return n;
}

class Table {
public:
  RoleBytes bytes{};

  // An array of `elements`, of which `values` are not padding.
  void array(Role role, plan::Type type, uint64_t elements, uint64_t values) {
    const uint64_t size = sizeOf(static_cast<Type>(type));
    add(role, values * size);
    add(Role::Padding, round64(elements * size) - values * size);
  }
  void scales(uint64_t count) { array(Role::Scales, plan::F32, count, count); }
  void add(Role role, uint64_t count) { bytes[static_cast<size_t>(role)] += count; }
};

struct Shard {
  uint64_t elements = 0, values = 0;
};

// The part of a class whose optimizer state this rank keeps: a run of blocks of each bucket.
Shard shardOf(const plan::Plan &plan, int stateClass, unsigned rank, unsigned ranks) {
  Shard shard;
  for (const plan::Bucket &bucket : plan.buckets()) {
    if (bucket.state_class() != static_cast<unsigned>(stateClass))
      continue;
    const uint64_t blocks = bucket.elements() / blockSize, share = (blocks + ranks - 1) / ranks;
    const uint64_t begin = bucket.offset() + std::min(blocks, rank * share) * blockSize,
                   end = bucket.offset() + std::min(blocks, (rank + 1) * share) * blockSize;
    shard.elements += end - begin;
    for (unsigned index : bucket.parameters()) {
      const plan::Parameter &parameter = plan.parameters(static_cast<int>(index));
      const uint64_t first = std::max(begin, parameter.offset()),
                     last = std::min(end, parameter.offset() + elementsOf(parameter));
      if (first < last)
        shard.values += last - first;
    }
  }
  return shard;
}

} // namespace

RoleBytes memoryOfRank(const plan::Plan &plan, const plan::Target &target, unsigned rank, unsigned ranks) {
  Table table;
  for (int c = 0; c < plan.classes_size(); ++c) {
    const plan::StateClass &state = plan.classes(c);
    const bool sharded = plan.zero() >= 1 && ranks > 1 && !state.update_kernel().empty();
    const Shard own = sharded ? shardOf(plan, c, rank, ranks) : Shard{state.elements(), state.values()};
    table.array(Role::Weights, state.weight(), state.elements(), state.values());
    table.array(Role::Master, state.master(), own.elements, own.values);
    table.array(Role::Gradients, state.grad(), state.elements(), state.values());
    table.array(Role::Moments, state.m(), own.elements, own.values);
    table.array(Role::Moments, state.v(), own.elements, own.values);
    if (isBlockScaled(static_cast<Type>(state.m())))
      table.scales(own.elements / blockSize);
    if (isBlockScaled(static_cast<Type>(state.v())))
      table.scales(own.elements / blockSize);
    if (isFp8(static_cast<Type>(state.grad())) && ranks > 1)
      table.scales(state.elements() / blockSize);
    if (!state.update_kernel().empty()) // the parameter of each block
      table.scales(state.elements() / blockSize);
  }
  const auto parameters = static_cast<uint64_t>(plan.parameters_size()),
             sites = static_cast<uint64_t>(plan.sites_size());
  // Scales of weights, amax, scales of masters and gradients; those that an update makes; the class of each
  // parameter.
  for (int i = 0; i < 8; ++i)
    table.scales(parameters);
  for (uint64_t count : {parameters * inverseStride, sites * inverseStride}) // inverse scales
    table.scales(count);
  for (uint64_t count : {sites, sites, sites * std::max(1u, plan.history())}) // scale, amax, history
    table.scales(count);
  table.add(Role::Scales, sites * sizeof(SiteRule));
  table.add(Role::Padding, round64(sites * sizeof(SiteRule)) - sites * sizeof(SiteRule));
  table.add(Role::Scales, sizeof(StepState));
  table.add(Role::Padding, round64(sizeof(StepState)) - sizeof(StepState));

  uint64_t arena = 0, workspace = 0;
  for (const plan::Program &program : target.programs()) {
    if (program.arena_bytes() > arena) {
      arena = program.arena_bytes();
      workspace = program.arena_workspace_bytes();
    }
    if (program.name() == "eval")
      continue; // its outputs (logits) are allocated when it first runs, which a training run never does
    uint64_t outputs = 0;
    for (const plan::Output &output : program.outputs())
      outputs = std::max(outputs, output.offset() + output.bytes());
    table.add(Role::Activations, outputs);
  }
  table.add(Role::Activations, arena - workspace);
  table.add(Role::Workspace, workspace + exchangeBytes(plan, ranks));
  if (ranks > 1) // gradient scales of all ranks
    table.add(Role::Workspace, ranks * parameters * sizeof(float));
  for (const plan::Input &input : plan.inputs()) {
    uint64_t bytes = sizeOf(static_cast<Type>(input.type()));
    for (int64_t d : input.shape())
      bytes *= static_cast<uint64_t>(d);
    const uint64_t places = target.name() == "cpu" ? 1 : 2; // on a GPU the next ones arrive meanwhile
    table.add(Role::Inputs, places * round64(bytes));
  }
  for (const plan::Constant &constant : target.constants())
    table.bytes[static_cast<size_t>(Role::Constants)] = constant.offset() + constant.bytes();
  return table.bytes;
}

} // namespace msamp::runtime
