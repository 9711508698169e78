#include "runtime/data/RandomInput.h"

#include "runtime/core/Error.h"
#include "runtime/data/InputCopy.h"
#include "runtime/data/Sampler.h"

#include <cmath>

namespace msamp::data {
using namespace runtime;

namespace {

// Position `position` of a row's sequence of 64-bit numbers.
uint64_t bitsAt(uint64_t start, uint64_t position) { return mix(start ^ position); }

uint64_t below(uint64_t bits, uint64_t count) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * count) >> 64);
}

// Box and Muller, 1958.
float normal(uint64_t bits) {
  const double u = (static_cast<double>(bits >> 32) + 1) * 0x1p-32, v = static_cast<double>(bits & 0xffffffff) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v));
}

template <class T, class Value> void fillWith(void *out, uint64_t first, uint64_t count, Value &&value) {
  T *to = static_cast<T *>(out) + first;
  for (uint64_t i = 0; i < count; ++i)
    to[i] = static_cast<T>(value(i));
}

} // namespace

void RandomInput::fillRow(const plan::Plan &plan, uint64_t seed, uint64_t sample, uint64_t row, uint64_t rows,
                          void *out) const {
  const plan::Input &in = plan.inputs(static_cast<int>(input));
  uint64_t elements = 1;
  for (int64_t extent : in.shape())
    elements *= static_cast<uint64_t>(extent);
  const bool sampled = in.shape_size() > 0 && static_cast<uint64_t>(in.shape(0)) == rows;
  if (!sampled && row > 0)
    return;
  const uint64_t count = sampled ? elements / rows : elements, first = sampled ? row * count : 0;
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
  case Type::F32: return fillWith<float>(out, first, count, [&](uint64_t i) { return normal(bitsAt(start, i + shift)); });
  default: failUsage("{} cannot be filled with random values; give it data", describe(in));
  }
}

} // namespace msamp::data
