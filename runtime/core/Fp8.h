// Conversions between FP32 and the narrow formats, as plain integer arithmetic without branches, so that loops over them vectorise.
#ifndef MSAMP_RUNTIME_CORE_FP8_H
#define MSAMP_RUNTIME_CORE_FP8_H

#include <cstdint>
#include <cstring>

namespace msamp::runtime {

// Forced inline: a copy of these compiled for a newer processor must not be the one that the linker keeps.
#define MSAMP_INLINE [[gnu::always_inline]] static inline

MSAMP_INLINE uint32_t bitsOf(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return u;
}
MSAMP_INLINE float floatOf(uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, 4);
  return x;
}

// To nearest even; beyond the largest value, infinities included, to the largest; every NaN to 0x7f, as CUDA's
// satfinite conversions do.
MSAMP_INLINE uint8_t encodeE4M3(float x) {
  uint32_t bits = bitsOf(x), sign = (bits >> 24) & 0x80u, a = bits & 0x7fffffffu;
  // Below 2^-6 the codes are multiples of 2^-9, the spacing of floats in [2^14, 2^15): the addition rounds.
  uint32_t small = bitsOf(floatOf(a) + 0x1p14f) - bitsOf(0x1p14f);
  uint32_t normal = ((a + 0x7ffffu + ((a >> 20) & 1u)) >> 20) - (120u << 3);
  uint32_t code = a < 0x3c800000u ? small : normal;
  code = a >= 0x43e00000u ? 0x7eu : code; // 448
  code |= sign;
  return static_cast<uint8_t>(a > 0x7f800000u ? 0x7fu : code);
}

MSAMP_INLINE uint8_t encodeE5M2(float x) {
  uint32_t bits = bitsOf(x), sign = (bits >> 24) & 0x80u, a = bits & 0x7fffffffu;
  uint32_t small = bitsOf(floatOf(a) + 0x1p7f) - bitsOf(0x1p7f);
  uint32_t normal = ((a + 0xfffffu + ((a >> 21) & 1u)) >> 21) - (112u << 2);
  uint32_t code = a < 0x38800000u ? small : normal; // 2^-14
  code = a >= 0x47600000u ? 0x7bu : code;           // 57344
  code |= sign;
  return static_cast<uint8_t>(a > 0x7f800000u ? 0x7fu : code);
}

MSAMP_INLINE float decodeE4M3(uint8_t code) {
  uint32_t c = code, magnitude = c & 0x7fu;
  float small = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-9f;
  uint32_t bits = magnitude < 8u ? bitsOf(small) : (magnitude << 20) + (120u << 23);
  bits = magnitude == 0x7fu ? 0x7fc00000u : bits;
  return floatOf(bits | ((c & 0x80u) << 24));
}

MSAMP_INLINE float decodeE5M2(uint8_t code) {
  uint32_t c = code, magnitude = c & 0x7fu;
  float small = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-16f;
  uint32_t bits = magnitude < 4u ? bitsOf(small) : (magnitude << 21) + (112u << 23);
  bits = magnitude == 0x7cu ? 0x7f800000u : bits;
  bits = magnitude > 0x7cu ? 0x7fc00000u : bits;
  return floatOf(bits | ((c & 0x80u) << 24));
}

MSAMP_INLINE uint16_t encodeBF16(float x) {
  uint32_t bits = bitsOf(x), rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}
MSAMP_INLINE float decodeBF16(uint16_t code) { return floatOf(static_cast<uint32_t>(code) << 16); }

// IEEE: overflow gives infinity.
MSAMP_INLINE uint16_t encodeF16(float x) {
  uint32_t bits = bitsOf(x), sign = (bits >> 16) & 0x8000u, a = bits & 0x7fffffffu;
  uint32_t small = bitsOf(floatOf(a) + 0x1p-1f) - bitsOf(0x1p-1f); // multiples of 2^-24
  uint32_t normal = ((a + 0xfffu + ((a >> 13) & 1u)) >> 13) - (112u << 10);
  uint32_t code = a < 0x38800000u ? small : normal;
  code = a >= 0x477ff000u ? 0x7c00u : code; // 65520
  code = a > 0x7f800000u ? 0x7e00u : code;
  return static_cast<uint16_t>(code | sign);
}
MSAMP_INLINE float decodeF16(uint16_t code) {
  uint32_t c = code, magnitude = c & 0x7fffu;
  float small = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
  uint32_t bits = magnitude < 0x400u ? bitsOf(small) : (magnitude << 13) + (112u << 23);
  bits = magnitude >= 0x7c00u ? (magnitude << 13) + (224u << 23) : bits;
  return floatOf(bits | ((c & 0x8000u) << 16));
}

} // namespace msamp::runtime

#endif
