// Sums of gradients over the ranks: all-to-all, addition in FP32 in the order of ranks, rounding once, all-gather. The same bytes as a
// ring in the wire's type, and one rounding instead of one a hop.
#include <algorithm>
#include <functional>
#include <optional>

#include "runtime/core/Error.h"
#include "runtime/exec/ExecutorImpl.h"
#include "runtime/plan/ExchangeLayout.h"

namespace msamp::runtime {

namespace {

struct Spans {
  std::vector<size_t> offsets, bytes;
  explicit Spans(size_t ranks) : offsets(ranks), bytes(ranks) {}
};

} // namespace

// Values travel on one lane and are added on another, both beside the backward: gradients of a bucket are complete here, and
// nothing writes to them until the update, which waits (joinExchange).
void ExecutorImpl::exchange(unsigned index, unsigned zero) {
  const size_t ranks = comm_.size();
  const BucketLayout &bucket = state_.buckets[index];
  ClassState &state = state_.classes[bucket.stateClass];
  const ExchangeLayout layout(plan_, plan_.buckets(static_cast<int>(index)), comm_.size());
  const unsigned me = comm_.rank();
  const size_t storedSize = sizeOf(layout.stored);
  if (layout.bytes() > exchangeBytes_)
    failInternal("exchange of bucket {} needs {} bytes, {} were allocated", index, layout.bytes(), exchangeBytes_);

  toLane(Lane::Transfer);
  if (profiling_)
    device_.mark(laneMark_++);
  // Where values go as they are stored, receivers need the scale that each rank stored each parameter with.
  const size_t parameters = state_.tables.parameters;
  const bool byParameter = !layout.narrowed && isFp8(layout.stored);
  if (byParameter) {
    Spans spans(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      spans.offsets[r] = r * parameters * sizeof(float);
      spans.bytes[r] = parameters * sizeof(float);
    }
    device_.copyBytes(rankScales_ + me * parameters, state_.tables.gradScale, parameters * sizeof(float));
    comm_.allGather(rankScales_, spans.offsets, spans.bytes);
  }

  auto part = [&](size_t r, int64_t from) {
    const BlockRange &shard = bucket.shards[r];
    const int64_t first = std::min(shard.first + from, shard.end());
    return BlockRange{first, std::min(layout.piece, shard.end() - first)};
  };
  std::optional<Moment> reduced[ExchangeLayout::slots]; // when a slot may be filled again
  const int64_t share = bucket.shards[0].count;
  size_t slot = 0;
  for (int64_t from = 0; from < share; from += layout.piece, slot = (slot + 1) % ExchangeLayout::slots) {
    std::byte *received = exchangeBuffer_ + slot * layout.slotBytes, *sent = received + layout.sentAt;
    auto scalesOf = [&](std::byte *base, size_t r) {
      return reinterpret_cast<float *>(base + layout.scalesAt) + r * static_cast<size_t>(layout.piece);
    };
    const BlockRange own = part(me, from);
    Spans out(ranks), in(ranks), outScales(ranks), inScales(ranks);
    if (reduced[slot])
      device_.waitFor(*reduced[slot]);
    for (size_t r = 0; r < ranks; ++r) {
      const BlockRange theirs = part(r, from);
      out.bytes[r] = static_cast<size_t>(theirs.count) * layout.blockBytes;
      in.offsets[r] = r * layout.valueBytes;
      in.bytes[r] = static_cast<size_t>(own.count) * layout.blockBytes;
      if (!layout.narrowed) {
        out.offsets[r] = static_cast<size_t>(theirs.first) * layout.blockBytes;
        continue;
      }
      out.offsets[r] = r * layout.valueBytes;
      outScales.offsets[r] = inScales.offsets[r] = r * layout.scaleBytes;
      outScales.bytes[r] = static_cast<size_t>(theirs.count) * sizeof(float);
      inScales.bytes[r] = static_cast<size_t>(own.count) * sizeof(float);
      if (theirs.count > 0) {
        BlockSpan source{state.grad + static_cast<size_t>(theirs.first * blockSize) * storedSize, layout.stored, nullptr};
        device_.reduceBlocks(std::span(&source, 1), sent + out.offsets[r], layout.wire, scalesOf(sent, r), theirs.count);
      }
    }
    comm_.together([&] {
      comm_.allToAll(layout.narrowed ? sent : state.grad, out.offsets, out.bytes, received, in.offsets, in.bytes);
      if (layout.narrowed && isFp8(layout.wire))
        comm_.allToAll(scalesOf(sent, 0), outScales.offsets, outScales.bytes, scalesOf(received, 0), inScales.offsets,
            inScales.bytes);
    });
    if (own.count == 0)
      continue;
    toLane(Lane::Reduce);
    std::vector<BlockSpan> sources(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      float *blockScales = scalesOf(received, r);
      sources[r] = {received + in.offsets[r], layout.wire, isFp8(layout.wire) ? blockScales : nullptr};
      if (byParameter)
        device_.spreadScales(rankScales_ + r * parameters, state.owner + own.first, blockScales, own.count);
    }
    device_.reduceBlocks(sources, state.grad + static_cast<size_t>(own.first * blockSize) * storedSize, layout.stored,
        state.gradScale ? state.gradScale + own.first : nullptr, own.count);
    reduced[slot] = device_.moment();
    device_.onLane(Lane::Transfer);
  }
  // What follows on this lane sends the sums, or takes the buffer or the scales again.
  for (const std::optional<Moment> &moment : reduced)
    if (moment)
      device_.waitFor(*moment);
  if (zero == 0) {
    Spans values(ranks), blockScales(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      const BlockRange &shard = bucket.shards[r];
      values.offsets[r] = static_cast<size_t>(shard.first * blockSize) * storedSize;
      values.bytes[r] = static_cast<size_t>(shard.count * blockSize) * storedSize;
      blockScales.offsets[r] = static_cast<size_t>(shard.first) * sizeof(float);
      blockScales.bytes[r] = static_cast<size_t>(shard.count) * sizeof(float);
    }
    comm_.together([&] {
      comm_.allGather(state.grad, values.offsets, values.bytes);
      if (state.gradScale)
        comm_.allGather(state.gradScale, blockScales.offsets, blockScales.bytes);
    });
  }
  if (profiling_)
    device_.mark(laneMark_++);
  exchanged_ = device_.moment();
  device_.onLane(Lane::Compute);
}

void ExecutorImpl::toLane(Lane lane) {
  const Moment before = device_.moment();
  device_.onLane(lane);
  device_.waitFor(before);
}

void ExecutorImpl::joinExchange() {
  if (exchanged_)
    device_.waitFor(*exchanged_);
  exchanged_.reset();
}

// Collectives that the steps behind them wait for.
void ExecutorImpl::collective(const std::function<void()> &calls) {
  if (comm_.size() == 1)
    return calls();
  toLane(Lane::Transfer);
  calls();
  toLane(Lane::Compute);
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
    collective([&] { comm_.allGather(state.weight, spans.offsets, spans.bytes); });
  }
}

} // namespace msamp::runtime
