#include "runtime/exec/State.h"

#include <algorithm>

namespace msamp::runtime {

namespace {

int64_t elementsOf(const plan::Parameter &parameter) {
  int64_t n = 1;
  for (int64_t d : parameter.shape())
    n *= d;
  return n;
}

// Values (padding left out) of a class that lie in a range of blocks.
uint64_t valuesIn(const plan::Plan &plan, unsigned stateClass, BlockRange range) {
  uint64_t values = 0;
  for (const plan::Parameter &parameter : plan.parameters()) {
    if (parameter.state_class() != stateClass)
      continue;
    const auto first = static_cast<int64_t>(parameter.offset());
    const int64_t begin = std::max(first, range.first * blockSize),
                  end = std::min(first + elementsOf(parameter), range.end() * blockSize);
    values += static_cast<uint64_t>(std::max<int64_t>(0, end - begin));
  }
  return values;
}

// Parameters of a class in the order of their blocks; each owns the blocks up to the next.
std::vector<OwnedRange> ownersOf(const plan::Plan &plan, unsigned stateClass) {
  std::vector<OwnedRange> owners;
  for (int i = 0; i < plan.parameters_size(); ++i)
    if (plan.parameters(i).state_class() == stateClass && elementsOf(plan.parameters(i)) > 0)
      owners.push_back({{static_cast<int64_t>(plan.parameters(i).offset()) / blockSize, 0}, static_cast<unsigned>(i)});
  std::sort(owners.begin(), owners.end(), [](const auto &a, const auto &b) { return a.blocks.first < b.blocks.first; });
  for (size_t i = 0; i < owners.size(); ++i) {
    int64_t end = i + 1 < owners.size() ? owners[i + 1].blocks.first
                                        : static_cast<int64_t>(plan.classes(static_cast<int>(stateClass)).elements()) / blockSize;
    owners[i].blocks.count = end - owners[i].blocks.first;
  }
  return owners;
}

} // namespace

std::vector<OwnedRange> intersect(const std::vector<OwnedRange> &owners, BlockRange range) {
  std::vector<OwnedRange> out;
  for (const OwnedRange &owner : owners) {
    const int64_t begin = std::max(owner.blocks.first, range.first), end = std::min(owner.blocks.end(), range.end());
    if (begin < end)
      out.push_back({{begin, end - begin}, owner.parameter});
  }
  return out;
}

State::State(const plan::Plan &plan, Device &device, unsigned rank, unsigned ranks)
    : sharded_(plan.zero() >= 1 && ranks > 1), rank_(rank), device_(device) {
  std::vector<int64_t> localValues(static_cast<size_t>(plan.classes_size()), 0);
  for (const plan::StateClass &from : plan.classes()) {
    ClassState state{};
    state.weightType = static_cast<Type>(from.weight());
    state.masterType = static_cast<Type>(from.master());
    state.gradType = static_cast<Type>(from.grad());
    state.mType = static_cast<Type>(from.m());
    state.vType = static_cast<Type>(from.v());
    state.wireType = static_cast<Type>(from.wire());
    state.weightScaled = from.weight_scaled();
    state.masterScaled = from.master_scaled();
    state.trained = !from.update_kernel().empty();
    state.blocks = static_cast<int64_t>(from.elements()) / blockSize;
    classes.push_back(state);
  }
  std::vector<std::vector<OwnedRange>> owners;
  for (int c = 0; c < plan.classes_size(); ++c)
    owners.push_back(ownersOf(plan, static_cast<unsigned>(c)));
  for (const plan::Bucket &from : plan.buckets()) {
    BucketLayout bucket;
    bucket.stateClass = from.state_class();
    bucket.blocks = {static_cast<int64_t>(from.offset()) / blockSize, static_cast<int64_t>(from.elements()) / blockSize};
    const int64_t share = (bucket.blocks.count + ranks - 1) / ranks;
    for (unsigned r = 0; r < ranks; ++r) {
      const int64_t begin = std::min(bucket.blocks.count, r * share), end = std::min(bucket.blocks.count, (r + 1) * share);
      bucket.shards.push_back({bucket.blocks.first + begin, end - begin});
    }
    ClassState &state = classes[bucket.stateClass];
    bucket.localFirst = state.localBlocks;
    state.localBlocks += bucket.shards[rank].count;
    localValues[bucket.stateClass] += static_cast<int64_t>(valuesIn(plan, bucket.stateClass, bucket.shards[rank]));
    bucket.owners = intersect(owners[bucket.stateClass], bucket.blocks);
    buckets.push_back(std::move(bucket));
  }

  // Positions first, then one allocation, then pointers.
  struct Placed {
    void **pointer;
    size_t offset;
  };
  std::vector<Placed> placed;
  size_t total = 0;
  auto place = [&](auto &pointer, size_t bytes, Role role, size_t padding) {
    if (bytes == 0)
      return;
    placed.push_back({reinterpret_cast<void **>(&pointer), total});
    const size_t end = (total + bytes + 63) / 64 * 64;
    bytes_[static_cast<size_t>(role)] += bytes - padding;
    bytes_[static_cast<size_t>(Role::Padding)] += padding + (end - total - bytes);
    total = end;
  };
  for (size_t c = 0; c < classes.size(); ++c) {
    ClassState &state = classes[c];
    const bool local = sharded_ && state.trained;
    if (!local)
      state.localBlocks = state.blocks;
    const auto all = static_cast<size_t>(state.blocks), own = static_cast<size_t>(state.localBlocks);
    const size_t allValues = valuesIn(plan, static_cast<unsigned>(c), {0, state.blocks});
    const size_t ownValues = local ? static_cast<size_t>(localValues[c]) : allValues;
    auto array = [&](std::byte *&pointer, Type type, size_t blocks, size_t values, Role role) {
      place(pointer, blocks * blockSize * sizeOf(type), role, (blocks * blockSize - values) * sizeOf(type));
    };
    array(state.weight, state.weightType, all, allValues, Role::Weights);
    array(state.master, state.masterType, own, ownValues, Role::Master);
    array(state.grad, state.gradType, all, allValues, Role::Gradients);
    array(state.m, state.mType, own, ownValues, Role::Moments);
    array(state.v, state.vType, own, ownValues, Role::Moments);
    if (isBlockScaled(state.mType))
      place(state.mScale, own * sizeof(float), Role::Scales, 0);
    if (isBlockScaled(state.vType))
      place(state.vScale, own * sizeof(float), Role::Scales, 0);
    if (isFp8(state.gradType) && ranks > 1)
      place(state.gradScale, all * sizeof(float), Role::Scales, 0);
  }
  for (ClassState &state : classes)
    if (state.trained)
      place(state.owner, static_cast<size_t>(state.blocks) * sizeof(int32_t), Role::Scales, 0);
  StepTables &t = tables;
  t.parameters = static_cast<uint32_t>(plan.parameters_size());
  t.sites = static_cast<uint32_t>(plan.sites_size());
  t.history = std::max(1u, plan.history());
  for (float **table : {&t.weightScale, &t.weightAmax, &t.masterScale, &t.gradScale, &t.newWeightScale, &t.newMasterScale,
           &t.newAmax})
    place(*table, t.parameters * sizeof(float), Role::Scales, 0);
  place(t.siteScale, t.sites * sizeof(float), Role::Scales, 0);
  place(t.weightInverse, size_t{t.parameters} * inverseStride * sizeof(float), Role::Scales, 0);
  place(t.siteInverse, size_t{t.sites} * inverseStride * sizeof(float), Role::Scales, 0);
  place(t.siteAmax, t.sites * sizeof(float), Role::Scales, 0);
  place(t.siteHistory, size_t{t.sites} * t.history * sizeof(float), Role::Scales, 0);
  int32_t *parameterClass = nullptr;
  SiteRule *siteRules = nullptr;
  place(parameterClass, t.parameters * sizeof(int32_t), Role::Scales, 0);
  place(siteRules, t.sites * sizeof(SiteRule), Role::Scales, 0);
  place(t.state, sizeof(StepState), Role::Scales, 0);

  arena_ = device_.allocate(total);
  arenaBytes_ = total;
  for (const Placed &item : placed)
    *item.pointer = static_cast<std::byte *>(arena_) + item.offset;
  t.parameterClass = parameterClass;
  t.siteRules = siteRules;
  fillRules(plan, owners, parameterClass, siteRules);
}

void State::fillRules(const plan::Plan &plan, const std::vector<std::vector<OwnedRange>> &owners, int32_t *parameterClass,
    SiteRule *siteRules) {
  auto send = [&](void *to, const auto &values) {
    if (!values.empty())
      device_.upload(to, values.data(), values.size() * sizeof(values[0]));
  };
  for (size_t c = 0; c < classes.size(); ++c) {
    if (!classes[c].trained)
      continue;
    std::vector<int32_t> owner(static_cast<size_t>(classes[c].blocks));
    for (const OwnedRange &range : owners[c])
      std::fill_n(owner.begin() + range.blocks.first, range.blocks.count, static_cast<int32_t>(range.parameter));
    send(classes[c].owner, owner);
  }
  std::vector<int32_t> classOf;
  for (const plan::Parameter &parameter : plan.parameters())
    classOf.push_back(static_cast<int32_t>(parameter.state_class()));
  send(parameterClass, classOf);
  std::vector<SiteRule> rules;
  for (const plan::Site &site : plan.sites())
    rules.push_back({static_cast<Type>(site.format()), static_cast<int32_t>(site.margin())});
  send(siteRules, rules);
}

State::~State() { device_.release(arena_, arenaBytes_); }

BlockRange State::blocksOf(const plan::Parameter &parameter) const {
  return {static_cast<int64_t>(parameter.offset()) / blockSize, (elementsOf(parameter) + blockSize - 1) / blockSize};
}

int64_t State::localBlock(unsigned bucket, int64_t block) const {
  const BucketLayout &layout = buckets[bucket];
  if (!sharded_)
    return block;
  const BlockRange &own = layout.shards[rank_];
  return block >= own.first && block < own.end() ? layout.localFirst + block - own.first : -1;
}

} // namespace msamp::runtime
