#include "runtime/plan/ExchangeLayout.h"

#include <algorithm>

namespace msamp::runtime {

namespace {

// What is received at a time: small beside the gradients, large beside what a collective costs to begin.
constexpr size_t maxPieceBytes = size_t{16} << 20;

size_t round64(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

} // namespace

ExchangeLayout::ExchangeLayout(const plan::Plan &plan, const plan::Bucket &bucket, unsigned ranks) {
  const plan::StateClass &state = plan.classes(static_cast<int>(bucket.state_class()));
  stored = static_cast<Type>(state.grad());
  wire = state.wire() == plan::NONE ? stored : static_cast<Type>(state.wire());
  narrowed = wire != stored;
  blockBytes = blockSize * sizeOf(wire);
  const auto share = static_cast<int64_t>((bucket.elements() / blockSize + ranks - 1) / ranks);
  piece = std::clamp<int64_t>(static_cast<int64_t>(maxPieceBytes / ranks / blockBytes), 1, std::max<int64_t>(1, share));
  valueBytes = round64(static_cast<size_t>(piece) * blockBytes);
  scaleBytes = static_cast<size_t>(piece) * sizeof(float);
  scalesAt = ranks * valueBytes;
  sentAt = scalesAt + ranks * round64(scaleBytes);
  slotBytes = narrowed ? 2 * sentAt : sentAt;
}

uint64_t exchangeBytes(const plan::Plan &plan, unsigned ranks) {
  uint64_t most = 0;
  if (ranks > 1)
    for (const plan::Bucket &bucket : plan.buckets())
      most = std::max<uint64_t>(most, ExchangeLayout(plan, bucket, ranks).bytes());
  return most;
}

} // namespace msamp::runtime
