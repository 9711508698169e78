// Which part of the data a sample is: a pure function of (seed, sample number), so that it does not depend on the
// number of ranks, on what was read before, or on where a run was stopped.
#ifndef MSAMP_RUNTIME_DATA_SAMPLER_H
#define MSAMP_RUNTIME_DATA_SAMPLER_H

#include <cstdint>

namespace msamp::data {

// Mixes a counter into 64 well-distributed bits (the finaliser of SplitMix64).
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// A number in [0, count), uniform over sample numbers. The high half of a 128-bit product instead of a remainder: its
// bias is below count / 2^64.
inline uint64_t drawSample(uint64_t seed, uint64_t sample, uint64_t count) {
  uint64_t bits = mix(mix(seed) ^ sample);
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * count) >> 64);
}

// The number of row `row` of micro-batch `microBatch` (counted over all ranks) of step `step` (from 0).
inline uint64_t sampleNumber(uint64_t step, uint64_t microBatchesPerStep, uint64_t microBatch,
                             uint64_t rowsPerMicroBatch, uint64_t row) {
  return (step * microBatchesPerStep + microBatch) * rowsPerMicroBatch + row;
}

} // namespace msamp::data

#endif
