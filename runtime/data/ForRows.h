// Rows of a batch, filled by several threads where there are enough bytes to fill: a batch of images takes a core longer than a
// GPU's step.
#ifndef MSAMP_RUNTIME_DATA_FORROWS_H
#define MSAMP_RUNTIME_DATA_FORROWS_H

#include <algorithm>
#include <cstdint>
#include <future>
#include <thread>
#include <vector>

namespace msamp::data {

// Calls body(row) for each of `rows` rows, which hold `bytes` together. What it throws comes out, of the first row that fails.
template <class Body>
void forRows(uint64_t rows, uint64_t bytes, Body &&body) {
  constexpr uint64_t worthAThread = 2 << 20, mostThreads = 16;
  auto run = [&](uint64_t from, uint64_t to) {
    for (uint64_t row = from; row < to; ++row)
      body(row);
  };
  const uint64_t threads =
      std::min({rows, bytes / worthAThread, mostThreads, static_cast<uint64_t>(std::thread::hardware_concurrency())});
  if (threads <= 1)
    return run(0, rows);
  std::vector<std::future<void>> parts; // the destructors wait
  for (uint64_t t = 0; t < threads; ++t)
    parts.push_back(std::async(std::launch::async, run, rows * t / threads, rows * (t + 1) / threads));
  for (std::future<void> &part : parts)
    part.get();
}

} // namespace msamp::data

#endif
