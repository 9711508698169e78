// What others want to see: parameters, gradients and outputs as FP32.
#include <algorithm>

#include "runtime/core/Error.h"
#include "runtime/exec/ExecutorImpl.h"

namespace msamp::runtime {

ExecutorImpl::Source ExecutorImpl::sourceOf(const std::string &name) const {
  for (int i = 0; i < plan_.parameters_size(); ++i) {
    if (plan_.parameters(i).name() == name)
      return {static_cast<unsigned>(i), false};
    for (const plan::Twin &twin : plan_.parameters(i).twins())
      if (twin.name() == name)
        return {static_cast<unsigned>(i), twin.transposed()};
  }
  failInternal("the plan has no parameter {}", name);
}

unsigned ExecutorImpl::bucketOf(unsigned parameter) const {
  for (size_t b = 0; b < state_.buckets.size(); ++b)
    for (const OwnedRange &owner : state_.buckets[b].owners)
      if (owner.parameter == parameter)
        return static_cast<unsigned>(b);
  failInternal("parameter {} is in no bucket", plan_.parameters(static_cast<int>(parameter)).name());
}

void ExecutorImpl::transposeIfTwin(const Source &source, std::vector<float> &values) const {
  const plan::Parameter &parameter = plan_.parameters(static_cast<int>(source.parameter));
  if (!source.transposed || parameter.shape_size() != 2)
    return;
  const auto rows = static_cast<size_t>(parameter.shape(0)), cols = static_cast<size_t>(parameter.shape(1));
  std::vector<float> transposed(values.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j)
      transposed[j * rows + i] = values[i * cols + j];
  values.swap(transposed);
}

struct ExecutorImpl::StoredValues {
  const std::byte *array = nullptr; // of a class
  Type type = Type::None;
  float scale = 1;                  // value = stored / scale
  const float *blockScale = nullptr; // of each block of the class; instead of `scale`
  bool localOnly = false;           // the array holds this rank's shards alone
};

// Values of all blocks of a parameter that this rank has; the others come from their owners where `sharded`.
void ExecutorImpl::readBlocks(unsigned index, bool sharded, const StoredValues &stored, std::vector<float> &out) {
  const plan::Parameter &parameter = plan_.parameters(static_cast<int>(index));
  const BlockRange blocks = state_.blocksOf(parameter);
  size_t count = 1;
  for (int64_t d : parameter.shape())
    count *= static_cast<size_t>(d);
  out.assign(static_cast<size_t>(blocks.count * blockSize), 0.0f);
  auto ownPart = [&](size_t rank) {
    if (!sharded)
      return blocks;
    const BlockRange &shard = state_.buckets[bucketOf(index)].shards[rank];
    const int64_t begin = std::clamp(shard.first, blocks.first, blocks.end()), end = std::clamp(shard.end(), begin, blocks.end());
    return BlockRange{begin, end - begin};
  };
  const BlockRange own = ownPart(comm_.rank());
  const size_t blockBytes = blockSize * sizeOf(stored.type);
  const int64_t position = stored.localOnly && own.count > 0 ? state_.localBlock(bucketOf(index), own.first) : own.first;
  const std::byte *from = stored.array + static_cast<size_t>(position) * blockBytes;
  const float *scales = stored.blockScale ? stored.blockScale + own.first : nullptr;
  std::vector<std::byte> copy;
  std::vector<float> scaleCopy;
  if (!device_.hostMemory() && own.count > 0) {
    copy.resize(static_cast<size_t>(own.count) * blockBytes);
    device_.download(copy.data(), from, copy.size());
    from = copy.data();
    if (scales) {
      scaleCopy.resize(static_cast<size_t>(own.count));
      device_.download(scaleCopy.data(), scales, scaleCopy.size() * sizeof(float));
      scales = scaleCopy.data();
    }
  }
  device_.parallel(own.count, [&](int64_t b) {
    float *to = out.data() + (own.first + b - blocks.first) * blockSize;
    device_.decode(stored.type, from + static_cast<size_t>(b) * blockBytes, to, blockSize);
    const float inverse = 1.0f / (scales ? scales[b] : stored.scale);
    for (int64_t i = 0; i < blockSize; ++i)
      to[i] *= inverse;
  });
  if (sharded) {
    std::vector<size_t> offsets(comm_.size()), bytes(comm_.size());
    for (size_t r = 0; r < comm_.size(); ++r) {
      const BlockRange part = ownPart(r);
      offsets[r] = static_cast<size_t>((part.first - blocks.first) * blockSize) * sizeof(float);
      bytes[r] = static_cast<size_t>(part.count * blockSize) * sizeof(float);
    }
    gatherHost(out, offsets, bytes);
  }
  out.resize(count);
}

// allGather of values in host memory: by way of the device's memory where that is another.
void ExecutorImpl::gatherHost(std::vector<float> &values, const std::vector<size_t> &offsets, const std::vector<size_t> &bytes) {
  if (device_.hostMemory())
    return comm_.allGather(values.data(), offsets, bytes);
  const size_t size = values.size() * sizeof(float), me = comm_.rank();
  auto *there = static_cast<std::byte *>(device_.allocate(size));
  device_.upload(there + offsets[me], reinterpret_cast<const std::byte *>(values.data()) + offsets[me], bytes[me]);
  collective([&] { comm_.allGather(there, offsets, bytes); });
  device_.download(values.data(), there, size);
  device_.release(there, size);
}

float ExecutorImpl::tableEntry(const float *table, unsigned index) const {
  float value = 0;
  device_.download(&value, table + index, sizeof value);
  return value;
}

void ExecutorImpl::readParameter(const std::string &name, std::vector<float> &out) {
  const Source source = sourceOf(name);
  const ClassState &state = state_.classes[plan_.parameters(static_cast<int>(source.parameter)).state_class()];
  const bool sharded = state.master && state.trained && state_.sharded();
  StoredValues stored;
  stored.array = state.master ? state.master : state.weight;
  stored.type = state.master ? state.masterType : state.weightType;
  stored.scale = tableEntry(state.master ? state_.tables.masterScale : state_.tables.weightScale, source.parameter);
  stored.localOnly = sharded;
  readBlocks(source.parameter, sharded, stored, out);
  transposeIfTwin(source, out);
}

void ExecutorImpl::readGradient(const std::string &name, std::vector<float> &out) {
  const Source source = sourceOf(name);
  const ClassState &state = state_.classes[plan_.parameters(static_cast<int>(source.parameter)).state_class()];
  if (!state.grad || !state.trained)
    failInternal("parameter {} is not trained and has no gradient", name);
  StoredValues stored;
  stored.array = state.grad;
  stored.type = state.gradType;
  stored.scale = tableEntry(state_.tables.gradScale, source.parameter);
  stored.blockScale = state.gradScale;
  readBlocks(source.parameter, state_.sharded(), stored, out);
  transposeIfTwin(source, out);
}

std::vector<float> ExecutorImpl::output(const std::string &name) const {
  auto it = programs_.find("eval");
  if (it == programs_.end())
    failInternal("output {} was asked for before the eval program ran", name);
  for (const plan::Output &output : it->second.program->outputs()) {
    if (output.name() != name)
      continue;
    int64_t count = 1;
    for (int64_t d : output.shape())
      count *= d;
    std::vector<float> values(static_cast<size_t>(count));
    std::vector<std::byte> stored(output.bytes());
    device_.download(stored.data(), it->second.outputs + output.offset(), stored.size());
    device_.decode(static_cast<Type>(output.type()), stored.data(), values.data(), count);
    return values;
  }
  failInternal("the plan has no output {}", name);
}

} // namespace msamp::runtime
