// The update: norm, clipping, optimizer kernels, scales of weights, delayed scales.
#include "runtime/core/Error.h"
#include "runtime/exec/ExecutorImpl.h"

namespace msamp::runtime {

void ExecutorImpl::gradNorm() {
  joinExchange();
  std::vector<GradRange> ranges;
  // Always over this rank's own shards, so that ZeRO 0 and 1 add in the same order.
  for (const BucketLayout &bucket : state_.buckets) {
    const ClassState &state = state_.classes[bucket.stateClass];
    const BlockRange own = bucket.shards[comm_.rank()];
    if (!state.grad || own.count == 0)
      continue;
    ranges.push_back({state.grad + static_cast<size_t>(own.first * blockSize) * sizeOf(state.gradType), state.gradType,
        state.gradScale ? state.gradScale + own.first : nullptr, state.owner + own.first, own.count});
  }
  device_.gradSquares(state_.tables, ranges);
  collective([&] { comm_.allReduceSum(state_.tables.state->sums); });
  device_.finishNorm(state_.tables, comm_.size(), static_cast<double>(comm_.size()) * std::max(1u, plan_.accumulate()));
}

void ExecutorImpl::updateClass(unsigned index, const std::string &optimizer) {
  const ClassState &state = state_.classes[index];
  const ClassRule rule{static_cast<int32_t>(index), state.weightType, state.masterType, state.weightScaled, state.masterScaled,
      optimizer == "sgd"};
  device_.planScales(state_.tables, rule);
  // Where a class is not sharded its buckets are one range.
  std::vector<std::pair<BlockRange, int64_t>> parts; // and its first block in arrays of this rank's shards
  if (!state_.sharded())
    parts.push_back({{0, state.blocks}, 0});
  else
    for (const BucketLayout &bucket : state_.buckets)
      if (bucket.stateClass == index)
        parts.push_back({bucket.shards[comm_.rank()], bucket.localFirst});
  for (const auto &[range, local] : parts) {
    if (range.count == 0)
      continue;
    auto at = [](std::byte *base, Type type, int64_t block) {
      return base ? base + static_cast<size_t>(block * blockSize) * sizeOf(type) : nullptr;
    };
    UpdateArgs args;
    args.weight = at(state.weight, state.weightType, range.first);
    args.weightType = state.weightType;
    args.weightScaled = state.weightScaled;
    args.master = at(state.master, state.masterType, local);
    args.masterType = state.masterType;
    args.masterScaled = state.masterScaled;
    args.grad = at(state.grad, state.gradType, range.first);
    args.gradType = state.gradType;
    args.gradBlockScale = state.gradScale ? state.gradScale + range.first : nullptr;
    args.m = at(state.m, state.mType, local);
    args.mType = state.mType;
    args.mBlockScale = state.mScale ? state.mScale + local : nullptr;
    args.v = at(state.v, state.vType, local);
    args.vType = state.vType;
    args.vBlockScale = state.vScale ? state.vScale + local : nullptr;
    args.owner = state.owner + range.first;
    args.blocks = range.count;
    device_.update(updateKernels_[index], state_.tables, args);
  }
  if (state_.sharded())
    collective([&] { comm_.allReduceMax({state_.tables.newAmax, state_.tables.parameters}); });
  device_.commitScales(state_.tables, rule);
}

void ExecutorImpl::pushSites() {
  if (state_.tables.sites == 0)
    return;
  collective([&] { comm_.allReduceMax({state_.tables.siteAmax, state_.tables.sites}); });
  device_.pushSites(state_.tables);
}

} // namespace msamp::runtime
