// Power-of-two scales of the narrow formats.
#ifndef MSAMP_RUNTIME_CORE_SCALE_H
#define MSAMP_RUNTIME_CORE_SCALE_H

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/core/Types.h"

namespace msamp::runtime {

// Largest finite value of a narrow format.
constexpr float largestOf(Type type) {
  return type == Type::E4M3 ? 448.0f : type == Type::E5M2 ? 57344.0f : type == Type::F16 ? 65504.0f : 0x1.fffffep127f;
}

// 2^(floor(log2(largest / amax)) - margin), kept within 2^-126 and 2^126; 1 where amax is 0 or not finite. Exact: by
// comparison of mantissas.
inline float scaleOf(float amax, Type type, int margin = 0) {
  if (!(amax > 0) || !std::isfinite(amax))
    return 1.0f;
  int amaxExponent, largestExponent;
  float amaxMantissa = std::frexp(amax, &amaxExponent), largestMantissa = std::frexp(largestOf(type), &largestExponent);
  int exponent = largestExponent - amaxExponent - (amaxMantissa > largestMantissa ? 1 : 0) - margin;
  return std::ldexp(1.0f, std::clamp(exponent, -126, 126));
}

} // namespace msamp::runtime

#endif
