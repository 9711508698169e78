// Elements of arrays whose float type is known only at run time.
#ifndef MSAMP_RUNTIME_CORE_CONVERT_H
#define MSAMP_RUNTIME_CORE_CONVERT_H

#include <cstring>

#include "runtime/core/Error.h"
#include "runtime/core/Fp8.h"
#include "runtime/core/Types.h"

namespace msamp::runtime {

// Calls body(element, decode, encode) for the type: a value of what it is kept in, and its conversions. Error 70 for what is
// no float type.
template <class Body> auto withFloatType(Type type, Body &&body) {
  switch (type) {
  case Type::F32:
    return body(float(), [](float x) { return x; }, [](float x) { return x; });
  case Type::BF16:
    return body(uint16_t(), [](uint16_t c) { return decodeBF16(c); }, [](float x) { return encodeBF16(x); });
  case Type::F16:
    return body(uint16_t(), [](uint16_t c) { return decodeF16(c); }, [](float x) { return encodeF16(x); });
  case Type::E4M3:
    return body(uint8_t(), [](uint8_t c) { return decodeE4M3(c); }, [](float x) { return encodeE4M3(x); });
  case Type::E5M2:
    return body(uint8_t(), [](uint8_t c) { return decodeE5M2(c); }, [](float x) { return encodeE5M2(x); });
  default:
    failInternal("a tensor of {} was to be read or written as floats", nameOf(type));
  }
}

// `count` elements to FP32 and back; arrays of the type need not be aligned.
inline void decodeFloats(Type type, const void *source, float *destination, int64_t count) {
  withFloatType(type, [&](auto element, auto decode, auto) {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(&element, static_cast<const std::byte *>(source) + static_cast<size_t>(i) * sizeof element, sizeof element);
      destination[i] = decode(element);
    }
  });
}
inline void encodeFloats(Type type, const float *source, void *destination, int64_t count) {
  withFloatType(type, [&](auto element, auto, auto encode) {
    for (int64_t i = 0; i < count; ++i) {
      element = encode(source[i]);
      std::memcpy(static_cast<std::byte *>(destination) + static_cast<size_t>(i) * sizeof element, &element, sizeof element);
    }
  });
}

} // namespace msamp::runtime

#endif
