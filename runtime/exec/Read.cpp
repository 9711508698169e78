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

// decode(block of the class, destination of 128 values) for all blocks of a parameter that this rank has; the others come
// from their owners where `sharded`.
template <class Decode>
void ExecutorImpl::readBlocks(unsigned index, bool sharded, std::vector<float> &out, Decode &&decode) {
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
  device_.parallel(own.count, [&](int64_t b) {
    decode(own.first + b, out.data() + (own.first + b - blocks.first) * blockSize);
  });
  if (sharded) {
    std::vector<size_t> offsets(comm_.size()), bytes(comm_.size());
    for (size_t r = 0; r < comm_.size(); ++r) {
      const BlockRange part = ownPart(r);
      offsets[r] = static_cast<size_t>((part.first - blocks.first) * blockSize) * sizeof(float);
      bytes[r] = static_cast<size_t>(part.count * blockSize) * sizeof(float);
    }
    comm_.allGather(out.data(), offsets, bytes);
  }
  out.resize(count);
}

void ExecutorImpl::readParameter(const std::string &name, std::vector<float> &out) {
  const Source source = sourceOf(name);
  const ClassState &state = state_.classes[plan_.parameters(static_cast<int>(source.parameter)).state_class()];
  const bool sharded = state.master && state.trained && state_.sharded();
  const std::byte *array = state.master ? state.master : state.weight;
  const Type type = state.master ? state.masterType : state.weightType;
  const float scale = (state.master ? state_.masterScale : state_.weightScale)[source.parameter];
  const unsigned bucket = sharded ? bucketOf(source.parameter) : 0;
  readBlocks(source.parameter, sharded, out, [&](int64_t block, float *to) {
    const int64_t position = sharded ? state_.localBlock(bucket, block) : block;
    device_.decode(type, array + static_cast<size_t>(position * blockSize) * sizeOf(type), to, blockSize);
    for (int64_t i = 0; i < blockSize; ++i)
      to[i] *= 1.0f / scale;
  });
  transposeIfTwin(source, out);
}

void ExecutorImpl::readGradient(const std::string &name, std::vector<float> &out) {
  const Source source = sourceOf(name);
  const ClassState &state = state_.classes[plan_.parameters(static_cast<int>(source.parameter)).state_class()];
  if (!state.grad || !state.trained)
    failInternal("parameter {} is not trained and has no gradient", name);
  readBlocks(source.parameter, state_.sharded(), out, [&](int64_t block, float *to) {
    device_.decode(state.gradType, state.grad + static_cast<size_t>(block * blockSize) * sizeOf(state.gradType), to, blockSize);
    const float scale = state.gradScale ? state.gradScale[block] : state_.gradScale[source.parameter];
    for (int64_t i = 0; i < blockSize; ++i)
      to[i] *= 1.0f / scale;
  });
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
    device_.decode(static_cast<Type>(output.type()), it->second.outputs + output.offset(), values.data(), count);
    return values;
  }
  failInternal("the plan has no output {}", name);
}

} // namespace msamp::runtime
