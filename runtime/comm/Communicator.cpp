#include "runtime/comm/Communicator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace msamp::runtime {

namespace {

// Everybody's copy of `mine`, in the order of ranks.
template <class T> std::vector<T> gatherAll(Communicator &communicator, std::span<const T> mine) {
  const size_t size = communicator.size(), bytes = mine.size_bytes();
  std::vector<T> all(mine.size() * size);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<long>(mine.size() * communicator.rank()));
  std::vector<size_t> offsets(size), counts(size, bytes);
  for (size_t r = 0; r < size; ++r)
    offsets[r] = r * bytes;
  communicator.allGather(all.data(), offsets, counts);
  return all;
}

} // namespace

void Communicator::allReduceMax(std::span<float> values) {
  if (size() == 1 || values.empty())
    return;
  const std::vector<float> all = gatherAll<float>(*this, values);
  for (size_t i = 0; i < values.size(); ++i) {
    float largest = all[i];
    // What is not a number on one rank is none on all.
    for (size_t r = 1; r < size(); ++r) {
      float other = all[r * values.size() + i];
      largest = std::isnan(largest) || largest > other ? largest : other;
    }
    values[i] = largest;
  }
}

void Communicator::allReduceSum(std::span<double> values) {
  if (size() == 1 || values.empty())
    return;
  const std::vector<double> all = gatherAll<double>(*this, values);
  for (size_t i = 0; i < values.size(); ++i) {
    double sum = all[i];
    for (size_t r = 1; r < size(); ++r)
      sum += all[r * values.size() + i];
    values[i] = sum;
  }
}

void Communicator::allGatherValue(double value, std::span<double> out) {
  const std::vector<double> all = gatherAll<double>(*this, std::span<const double>(&value, 1));
  std::copy(all.begin(), all.end(), out.begin());
}

} // namespace msamp::runtime
