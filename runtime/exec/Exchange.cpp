// Sums of gradients over the ranks: all-to-all, addition in FP32 in the order of ranks, rounding once, all-gather. The same bytes as a
// ring in the wire's type, and one rounding instead of one a hop.
#include <algorithm>

#include "runtime/core/Error.h"
#include "runtime/exec/ExecutorImpl.h"

namespace msamp::runtime {

namespace {

// What is received at a time, in blocks of a shard, so that the buffer stays small beside the gradients.
constexpr int64_t maxPieceBytes = int64_t{4} << 20;

struct Spans {
  std::vector<size_t> offsets, bytes;
  explicit Spans(size_t ranks) : offsets(ranks), bytes(ranks) {}
};

} // namespace

void ExecutorImpl::exchange(unsigned index, unsigned zero) {
  const size_t ranks = comm_.size();
  if (ranks == 1)
    return;
  const BucketLayout &bucket = state_.buckets[index];
  ClassState &state = state_.classes[bucket.stateClass];
  const Type stored = state.gradType, wire = state.wireType == Type::None ? stored : state.wireType;
  const unsigned me = comm_.rank();
  const size_t wireSize = sizeOf(wire), storedSize = sizeOf(stored);
  const bool narrowed = wire != stored;

  // Where values go as they are stored, receivers need the scale that each rank stored each parameter with.
  const size_t parameters = state_.tables.parameters;
  const bool byParameter = !narrowed && isFp8(stored);
  if (byParameter) {
    Spans spans(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      spans.offsets[r] = r * parameters * sizeof(float);
      spans.bytes[r] = parameters * sizeof(float);
    }
    device_.copyBytes(rankScales_ + me * parameters, state_.tables.gradScale, parameters * sizeof(float));
    comm_.allGather(rankScales_, spans.offsets, spans.bytes);
  }

  const int64_t share = bucket.shards[0].count;
  const auto blockBytes = static_cast<int64_t>(blockSize * wireSize);
  const int64_t piece = std::clamp<int64_t>(maxPieceBytes / static_cast<int64_t>(ranks) / blockBytes, 1, std::max<int64_t>(1, share));
  // Values of the piece from each rank, their scales, and, where the wire is narrower, what goes out with its scales.
  const size_t valueBytes = (static_cast<size_t>(piece * blockBytes) + 63) / 64 * 64, scaleBytes = static_cast<size_t>(piece) * sizeof(float);
  const size_t half = ranks * (valueBytes + (scaleBytes + 63) / 64 * 64), needed = narrowed ? 2 * half : half;
  if (needed > exchangeBytes_)
    failInternal("exchange of bucket {} needs {} bytes, {} were allocated", index, needed, exchangeBytes_);
  std::byte *received = exchangeBuffer_, *sent = exchangeBuffer_ + half;
  auto scalesIn = [&](std::byte *base, size_t r) {
    return reinterpret_cast<float *>(base + ranks * valueBytes) + r * static_cast<size_t>(piece);
  };
  auto part = [&](size_t r, int64_t from) {
    const BlockRange &shard = bucket.shards[r];
    const int64_t first = std::min(shard.first + from, shard.end());
    return BlockRange{first, std::min(piece, shard.end() - first)};
  };

  for (int64_t from = 0; from < share; from += piece) {
    const BlockRange own = part(me, from);
    Spans out(ranks), in(ranks), outScales(ranks), inScales(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      const BlockRange theirs = part(r, from);
      out.bytes[r] = static_cast<size_t>(theirs.count * blockBytes);
      in.offsets[r] = r * valueBytes;
      in.bytes[r] = static_cast<size_t>(own.count * blockBytes);
      if (!narrowed) {
        out.offsets[r] = static_cast<size_t>(theirs.first * blockBytes);
        continue;
      }
      out.offsets[r] = r * valueBytes;
      outScales.offsets[r] = inScales.offsets[r] = r * scaleBytes;
      outScales.bytes[r] = static_cast<size_t>(theirs.count) * sizeof(float);
      inScales.bytes[r] = static_cast<size_t>(own.count) * sizeof(float);
      if (theirs.count > 0) {
        BlockSpan source{state.grad + static_cast<size_t>(theirs.first * blockSize) * storedSize, stored, nullptr};
        device_.reduceBlocks(std::span(&source, 1), sent + out.offsets[r], wire, scalesIn(sent, r), theirs.count);
      }
    }
    comm_.allToAll(narrowed ? sent : state.grad, out.offsets, out.bytes, received, in.offsets, in.bytes);
    if (narrowed && isFp8(wire))
      comm_.allToAll(scalesIn(sent, 0), outScales.offsets, outScales.bytes, scalesIn(received, 0), inScales.offsets, inScales.bytes);
    if (own.count == 0)
      continue;
    std::vector<BlockSpan> sources(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      float *blockScales = scalesIn(received, r);
      sources[r] = {received + in.offsets[r], wire, isFp8(wire) ? blockScales : nullptr};
      if (byParameter)
        device_.spreadScales(rankScales_ + r * parameters, state.owner + own.first, blockScales, own.count);
    }
    device_.reduceBlocks(sources, state.grad + static_cast<size_t>(own.first * blockSize) * storedSize, stored,
        state.gradScale ? state.gradScale + own.first : nullptr, own.count);
  }
  if (zero > 0)
    return;
  Spans values(ranks), blockScales(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    const BlockRange &shard = bucket.shards[r];
    values.offsets[r] = static_cast<size_t>(shard.first * blockSize) * storedSize;
    values.bytes[r] = static_cast<size_t>(shard.count * blockSize) * storedSize;
    blockScales.offsets[r] = static_cast<size_t>(shard.first) * sizeof(float);
    blockScales.bytes[r] = static_cast<size_t>(shard.count) * sizeof(float);
  }
  comm_.allGather(state.grad, values.offsets, values.bytes);
  if (state.gradScale)
    comm_.allGather(state.gradScale, blockScales.offsets, blockScales.bytes);
}

void ExecutorImpl::gatherWeights(unsigned stateClass) {
  if (!state_.sharded())
    return;
  const ClassState &state = state_.classes[stateClass];
  const size_t size = sizeOf(state.weightType), ranks = comm_.size();
  for (const BucketLayout &bucket : state_.buckets) {
    if (bucket.stateClass != stateClass)
      continue;
    Spans spans(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      spans.offsets[r] = static_cast<size_t>(bucket.shards[r].first * blockSize) * size;
      spans.bytes[r] = static_cast<size_t>(bucket.shards[r].count * blockSize) * size;
    }
    comm_.allGather(state.weight, spans.offsets, spans.bytes);
  }
}

} // namespace msamp::runtime
