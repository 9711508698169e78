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

void ExecutorImpl::setParameter(unsigned index, const std::vector<float> &values) {
  const plan::Parameter &parameter = plan_.parameters(static_cast<int>(index));
  ClassState &state = state_.classes[parameter.state_class()];
  const auto count = static_cast<int64_t>(values.size());
  const float amax = device_.largestMagnitude(values.data(), count);
  if (!std::isfinite(amax))
    failData("parameter {} has values that are not finite; training cannot start from them", parameter.name());
  const float weightScale = state.weightScaled ? scaleOf(amax, state.weightType) : 1.0f;
  const float masterScale = state.masterScaled ? scaleOf(amax, state.masterType) : 1.0f;
  state_.weightAmax[index] = amax;
  state_.weightScale[index] = weightScale;
  state_.masterScale[index] = masterScale;
  state_.gradScale[index] = 1.0f;

  const BlockRange blocks = state_.blocksOf(parameter);
  const int bucket = state.trained ? static_cast<int>(bucketOf(index)) : -1;
  device_.parallel(blocks.count, [&](int64_t b) {
    float block[blockSize] = {}, scaled[blockSize];
    const int64_t begin = b * blockSize;
    std::copy_n(values.data() + begin, std::min(blockSize, count - begin), block);
    auto store = [&](std::byte *array, Type type, float scale, int64_t position) {
      for (int64_t i = 0; i < blockSize; ++i)
        scaled[i] = block[i] * scale;
      device_.encode(type, scaled, array + static_cast<size_t>(position * blockSize) * sizeOf(type), blockSize);
    };
    store(state.weight, state.weightType, weightScale, blocks.first + b);
    const int64_t local = bucket < 0 ? blocks.first + b : state_.localBlock(static_cast<unsigned>(bucket), blocks.first + b);
    if (state.master && local >= 0)
      store(state.master, state.masterType, masterScale, local);
  });
}

void ExecutorImpl::initialize(uint64_t seed) {
  std::optional<SafetensorsReader> file;
  std::vector<float> values;
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
    setParameter(static_cast<unsigned>(i), values);
  }
  for (ClassState &state : state_.classes) {
    auto clear = [](void *data, size_t bytes) {
      if (data)
        std::memset(data, 0, bytes);
    };
    const auto own = static_cast<size_t>(state.localBlocks), all = static_cast<size_t>(state.blocks);
    clear(state.m, own * blockSize * sizeOf(state.mType));
    clear(state.v, own * blockSize * sizeOf(state.vType));
    clear(state.grad, all * blockSize * sizeOf(state.gradType));
    if (state.mScale)
      std::fill_n(state.mScale, own, 1.0f);
    if (state.vScale)
      std::fill_n(state.vScale, own, 1.0f);
    if (state.gradScale)
      std::fill_n(state.gradScale, all, 1.0f);
  }
  for (int s = 0; s < plan_.sites_size(); ++s) {
    state_.siteScale[s] = 1.0f;
    state_.siteAmax[s] = -1.0f; // nothing recorded
  }
  std::fill_n(state_.siteHistory, static_cast<size_t>(plan_.sites_size()) * std::max<size_t>(1, plan_.history()), 0.0f);
  sitesHaveHistory_ = false;
  siteSteps_ = 0;
  applied_ = 0;
  momentumBound_ = 0;
  lossSum_ = 0;
  lossCount_ = 0;
  health_ = {};
  health_.sites = static_cast<unsigned>(plan_.sites_size());
}

} // namespace msamp::runtime
