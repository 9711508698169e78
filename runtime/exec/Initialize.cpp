// First values of the training state.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>

#include "runtime/core/Error.h"
#include "runtime/core/Safetensors.h"
#include "runtime/core/Scale.h"
#include "runtime/exec/ExecutorImpl.h"

namespace msamp::runtime {

namespace {

// SplitMix64's output function (Steele, Lea and Flood, 2014): a good hash of a counter.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

uint64_t hashOf(const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325ull; // FNV-1a
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3ull;
  return mix(hash);
}

// Uniform in (0, 1].
double uniform(uint64_t bits) { return (static_cast<double>(bits >> 11) + 1.0) * 0x1p-53; }

// Value i depends on (seed, name, i) alone: neither on the level nor on who draws it.
void drawNormal(Device &device, const std::string &name, uint64_t seed, double stddev, std::vector<float> &values) {
  const uint64_t key = mix(hashOf(name) + 0x9e3779b97f4a7c15ull * (seed + 1));
  const auto count = static_cast<int64_t>(values.size());
  constexpr int64_t run = 4096;
  device.parallel((count + run - 1) / run, [&](int64_t r) {
    for (int64_t i = r * run; i < std::min(count, (r + 1) * run); i += 2) {
      const uint64_t counter = key + 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(i);
      const double radius = std::sqrt(-2.0 * std::log(uniform(mix(counter))));
      const double angle = 2.0 * std::numbers::pi * uniform(mix(counter + 0x9e3779b97f4a7c15ull));
      values[static_cast<size_t>(i)] = static_cast<float>(stddev * radius * std::cos(angle));
      if (i + 1 < count)
        values[static_cast<size_t>(i + 1)] = static_cast<float>(stddev * radius * std::sin(angle));
    }
  });
}

} // namespace

void ExecutorImpl::setParameter(unsigned index, const std::vector<float> &values, FirstScales &scales) {
  const plan::Parameter &parameter = plan_.parameters(static_cast<int>(index));
  ClassState &state = state_.classes[parameter.state_class()];
  const auto count = static_cast<int64_t>(values.size());
  const float amax = device_.largestMagnitude(values.data(), count);
  if (!std::isfinite(amax))
    failData("parameter {} has values that are not finite; training cannot start from them", parameter.name());
  const float weightScale = state.weightScaled ? scaleOf(amax, state.weightType) : 1.0f;
  const float masterScale = state.masterScaled ? scaleOf(amax, state.masterType) : 1.0f;
  scales.weightAmax[index] = amax;
  scales.weight[index] = weightScale;
  scales.master[index] = masterScale;

  // Blocks [first, first + number) of the parameter go to `array` from its block `position` on.
  const BlockRange blocks = state_.blocksOf(parameter);
  std::vector<std::byte> stage;
  auto store = [&](std::byte *array, Type type, float scale, int64_t first, int64_t number, int64_t position) {
    if (number <= 0)
      return;
    const size_t blockBytes = blockSize * sizeOf(type), bytes = static_cast<size_t>(number) * blockBytes;
    std::byte *target = array + static_cast<size_t>(position) * blockBytes, *to = target;
    if (!device_.hostMemory()) {
      stage.resize(bytes);
      to = stage.data();
    }
    device_.parallel(number, [&](int64_t b) {
      float scaled[blockSize] = {};
      const int64_t begin = (first + b) * blockSize, length = std::clamp<int64_t>(count - begin, 0, blockSize);
      for (int64_t i = 0; i < length; ++i)
        scaled[i] = values[static_cast<size_t>(begin + i)] * scale;
      device_.encode(type, scaled, to + static_cast<size_t>(b) * blockBytes, blockSize);
    });
    if (to != target)
      device_.upload(target, to, bytes);
  };
  store(state.weight, state.weightType, weightScale, 0, blocks.count, blocks.first);
  if (!state.master)
    return;
  if (!state.trained || !state_.sharded())
    return store(state.master, state.masterType, masterScale, 0, blocks.count, blocks.first);
  const BucketLayout &bucket = state_.buckets[bucketOf(index)];
  const BlockRange &own = bucket.shards[comm_.rank()];
  const int64_t begin = std::clamp(own.first, blocks.first, blocks.end()), end = std::clamp(own.end(), begin, blocks.end());
  store(state.master, state.masterType, masterScale, begin - blocks.first, end - begin, bucket.localFirst + begin - own.first);
}

void ExecutorImpl::initialize(uint64_t seed) {
  std::optional<SafetensorsReader> file;
  std::vector<float> values;
  const std::vector<float> ones(state_.tables.parameters, 1.0f);
  FirstScales scales{ones, ones, ones};
  for (int i = 0; i < plan_.parameters_size(); ++i) {
    const plan::Parameter &parameter = plan_.parameters(i);
    size_t count = 1;
    for (int64_t d : parameter.shape())
      count *= static_cast<size_t>(d);
    values.assign(count, 0.0f);
    switch (parameter.init()) {
    case plan::Parameter::NORMAL: drawNormal(device_, parameter.name(), seed, parameter.init_stddev(), values); break;
    case plan::Parameter::ONES: std::fill(values.begin(), values.end(), 1.0f); break;
    case plan::Parameter::ZEROS: break;
    default: {
      if (!file)
        file.emplace(loaded_.directory / "weights" / "weights.safetensors");
      const TensorView &view = file->at(parameter.name());
      if (!std::equal(view.shape.begin(), view.shape.end(), parameter.shape().begin(), parameter.shape().end()))
        failData("{}: tensor \"{}\" has not the shape of the parameter; compile the plan again", file->path().string(),
            parameter.name());
      values = file->readFloats(parameter.name());
    }
    }
    setParameter(static_cast<unsigned>(i), values, scales);
  }
  auto constant = [&](void *data, Type type, size_t count, double value) {
    if (!data || count == 0)
      return;
    Tensor all;
    all.data = static_cast<std::byte *>(data);
    all.type = type;
    all.rank = 1;
    all.shape[0] = static_cast<int64_t>(count);
    all.strides[0] = 1;
    device_.fill(all, value);
  };
  for (ClassState &state : state_.classes) {
    const auto own = static_cast<size_t>(state.localBlocks), all = static_cast<size_t>(state.blocks);
    constant(state.m, state.mType, own * blockSize, 0);
    constant(state.v, state.vType, own * blockSize, 0);
    constant(state.grad, state.gradType, all * blockSize, 0);
    constant(state.mScale, Type::F32, own, 1);
    constant(state.vScale, Type::F32, own, 1);
    constant(state.gradScale, Type::F32, all, 1);
  }
  const StepTables &t = state_.tables;
  auto send = [&](float *table, const std::vector<float> &from) {
    if (!from.empty())
      device_.upload(table, from.data(), from.size() * sizeof(float));
  };
  send(t.weightScale, scales.weight);
  std::vector<float> inverses;
  for (float scale : scales.weight)
    inverses.insert(inverses.end(), inverseStride, 1.0f / scale);
  send(t.weightInverse, inverses);
  send(t.weightAmax, scales.weightAmax);
  send(t.masterScale, scales.master);
  send(t.gradScale, ones);
  constant(t.siteScale, Type::F32, t.sites, 1);
  constant(t.siteInverse, Type::F32, size_t{t.sites} * inverseStride, 1);
  constant(t.siteAmax, Type::F32, t.sites, -1);
  constant(t.siteHistory, Type::F32, size_t{t.sites} * t.history, 0);
  const StepState fresh;
  device_.upload(t.state, &fresh, sizeof fresh);
  sitesHaveHistory_ = false;
  applied_ = 0;
  health_ = {};
  health_.sites = t.sites;
}

} // namespace msamp::runtime
