#include "runtime/data/RandomInput.h"

#include "runtime/core/Error.h"
#include "runtime/data/InputCopy.h"
#include "runtime/data/Sampler.h"

#include <cmath>
#include <vector>

namespace msamp::data {
using namespace runtime;

namespace {

// Position `position` of a row's sequence of 64-bit numbers.
uint64_t bitsAt(uint64_t start, uint64_t position) { return mix(start ^ position); }

uint64_t below(uint64_t bits, uint64_t count) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * count) >> 64);
}

// 2^16 numbers of equal probability: the quantiles of a normal distribution at (i + 0.5) / 2^16, so up to 4.3. A
// table, as there are millions of values in a batch of images.
const std::vector<float> &normalQuantiles() {
  static const std::vector<float> table = [] {
    constexpr size_t count = 1 << 16;
    std::vector<float> values(count);
    double x = 0;
    for (size_t i = count / 2; i < count; ++i) {
      // Newton's method from the quantile before, for the probability of a larger value.
      const double above = 1 - (static_cast<double>(i) + 0.5) / count;
      for (int step = 0; step < 8; ++step)
        x += (0.5 * std::erfc(x * M_SQRT1_2) - above) * std::sqrt(2 * M_PI) * std::exp(0.5 * x * x);
      values[i] = static_cast<float>(x);
      values[count - 1 - i] = static_cast<float>(-x);
    }
    return values;
  }();
  return table;
}

template <class T, class Value> void fillWith(void *out, uint64_t first, uint64_t count, Value &&value) {
  T *to = static_cast<T *>(out) + first;
  for (uint64_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(value(i));
}

} // namespace

uint64_t RandomInput::elements(const plan::Plan &plan) const {
  uint64_t count = 1;
  for (int64_t extent : plan.inputs(static_cast<int>(input)).shape())
    count *= static_cast<uint64_t>(extent);
  return count;
}

void RandomInput::fillRow(const plan::Plan &plan, uint64_t seed, uint64_t sample, uint64_t row, uint64_t rows,
                          void *out) const {
  const plan::Input &in = plan.inputs(static_cast<int>(input));
  const bool sampled = in.shape_size() > 0 && static_cast<uint64_t>(in.shape(0)) == rows;
  if (!sampled && row > 0)
    return;
  const uint64_t count = sampled ? elements(plan) / rows : elements(plan), first = sampled ? row * count : 0;
  const uint64_t start = mix(mix(mix(seed) ^ stream) ^ sample);
  auto integer = [&](uint64_t i) -> uint64_t {
    // All inputs of a stream draw from the same range, or they would not see the same numbers.
    const int64_t bound = plan.inputs(static_cast<int>(stream)).bound();
    return bound > 0 ? below(bitsAt(start, i + shift), static_cast<uint64_t>(bound)) : 1;
  };
  switch (static_cast<Type>(in.type())) {
  case Type::I64: return fillWith<int64_t>(out, first, count, integer);
  case Type::I32: return fillWith<int32_t>(out, first, count, integer);
  case Type::I8: return fillWith<int8_t>(out, first, count, integer);
  case Type::U8: return fillWith<uint8_t>(out, first, count, integer);
  case Type::Bool: return fillWith<uint8_t>(out, first, count, [](uint64_t) { return 1; });
  case Type::F32: {
    const float *quantiles = normalQuantiles().data();
    return fillWith<float>(out, first, count, [&](uint64_t i) { return quantiles[bitsAt(start, i + shift) >> 48]; });
  }
  default: failUsage("{} cannot be filled with random values; give it data", describe(in));
  }
}

} // namespace msamp::data
