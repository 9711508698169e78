// Power-of-two scales of the narrow formats.
#ifndef MSAMP_RUNTIME_CORE_SCALE_H
#define MSAMP_RUNTIME_CORE_SCALE_H

#include <bit>
#include <cstdint>

#include "runtime/core/Types.h"

namespace msamp::runtime {

// Largest finite value of a narrow format.
constexpr float largestOf(Type type) {
  return type == Type::E4M3 ? 448.0f : type == Type::E5M2 ? 57344.0f : type == Type::F16 ? 65504.0f : 0x1.fffffep127f;
}

// 2^(floor(log2(largest / amax)) - margin), kept within 2^-126 and 2^126; 1 where amax is 0 or not finite. Exact: by
// comparison of mantissas.
constexpr float scaleOf(float amax, Type type, int margin = 0) {
  auto bits = std::bit_cast<uint32_t>(amax);
  if (!(amax > 0) || bits >= 0x7f800000u)
    return 1.0f;
  int exponent = static_cast<int>(bits >> 23);
  if (exponent == 0)
    for (exponent = 1; (bits & 0x800000u) == 0; --exponent)
      bits <<= 1;
  const auto largest = std::bit_cast<uint32_t>(largestOf(type));
  const int carry = (bits & 0x7fffffu) > (largest & 0x7fffffu) ? 1 : 0;
  int scale = static_cast<int>(largest >> 23) - exponent - carry - margin;
  scale = scale < -126 ? -126 : scale > 126 ? 126 : scale;
  return std::bit_cast<float>(static_cast<uint32_t>(scale + 127) << 23);
}

} // namespace msamp::runtime

#endif
