// One set of VectorOps, compiled for the instruction set that MSAMP_ISA names. Only C headers and forced-inline functions are used
// here: an inline function of a library compiled for a newer processor could become the copy that all others call.
#include <math.h>
#include <string.h>

#include "runtime/core/Fp8.h"
#include "runtime/device/cpu/VectorOps.h"

#define MSAMP_JOIN2(a, b) a##b
#define MSAMP_JOIN(a, b) MSAMP_JOIN2(a, b)
#define MSAMP_STRING2(a) #a
#define MSAMP_STRING(a) MSAMP_STRING2(a)

namespace msamp::runtime::cpu {

namespace {

#define MSAMP_CODEC(NAME, STORED)                                                                                      \
  void decodeRun##NAME(const void *source, float *__restrict destination, int64_t count) {                             \
    const STORED *__restrict from = static_cast<const STORED *>(source);                                               \
    for (int64_t i = 0; i < count; ++i)                                                                                \
      destination[i] = decode##NAME(from[i]);                                                                          \
  }                                                                                                                    \
  void encodeRun##NAME(const float *__restrict source, void *destination, int64_t count) {                             \
    STORED *__restrict to = static_cast<STORED *>(destination);                                                        \
    for (int64_t i = 0; i < count; ++i)                                                                                \
      to[i] = encode##NAME(source[i]);                                                                                 \
  }
MSAMP_CODEC(BF16, uint16_t)
MSAMP_CODEC(F16, uint16_t)
MSAMP_CODEC(E4M3, uint8_t)
MSAMP_CODEC(E5M2, uint8_t)

void decodeRunF32(const void *source, float *destination, int64_t count) {
  memcpy(destination, source, static_cast<size_t>(count) * 4);
}
void encodeRunF32(const float *source, void *destination, int64_t count) {
  memcpy(destination, source, static_cast<size_t>(count) * 4);
}

constexpr int64_t lanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef uint32_t Bits __attribute__((vector_size(64)));
typedef double Doubles __attribute__((vector_size(128)));

MSAMP_INLINE Floats load(const float *x) {
  Floats v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}
MSAMP_INLINE void store(float *x, Floats v) { __builtin_memcpy(x, &v, sizeof v); }
// The first `count` (< 16) values, the others `rest`.
MSAMP_INLINE Floats loadPart(const float *x, int64_t count, float rest) {
  Floats v = rest - Floats{};
  __builtin_memcpy(&v, x, static_cast<size_t>(count) * 4);
  return v;
}
MSAMP_INLINE void storePart(float *x, Floats v, int64_t count) { __builtin_memcpy(x, &v, static_cast<size_t>(count) * 4); }

template <class V> MSAMP_INLINE auto sumLanes(V v) {
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j)
      v[j] += v[j + width];
  return v[0];
}

uint32_t largestMagnitude(const float *x, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t a = bitsOf(x[i]) & 0x7fffffffu;
    largest = a > largest ? a : largest;
  }
  return largest;
}

double sumOfSquares(const float *x, int64_t count) {
  Doubles acc = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Doubles v = __builtin_convertvector(load(x + i), Doubles);
    acc += v * v;
  }
  if (i < count) {
    Doubles v = __builtin_convertvector(loadPart(x + i, count - i, 0.0f), Doubles);
    acc += v * v;
  }
  return sumLanes(acc);
}

float dot(const float *x, const float *y, int64_t count) {
  Floats acc = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    acc += load(x + i) * load(y + i);
  if (i < count)
    acc += loadPart(x + i, count - i, 0.0f) * loadPart(y + i, count - i, 0.0f);
  return sumLanes(acc);
}

void add(float *__restrict sum, const float *__restrict x, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    sum[i] += x[i];
}
void addScaled(float *__restrict sum, const float *__restrict x, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    sum[i] += x[i] * factor;
}
void scale(float *x, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    x[i] *= factor;
}
void multiply(float *__restrict x, const float *__restrict factors, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    x[i] *= factors[i];
}

// exp to about one unit in the last place: Cephes' reduction by log 2 and its polynomial of degree 6. 0 below -87.3 (so
// for -inf), NaN for NaN; arguments above 88 are taken as 88.
MSAMP_INLINE Floats expOf(Floats x) {
  const Floats zero = {};
  Floats c = x < -87.3f ? zero - 87.3f : x;
  c = c > 88.0f ? zero + 88.0f : c;
  Floats shifted = c * 1.44269504088896341f + 0x1.8p23f;
  Floats n = shifted - 0x1.8p23f;
  Floats r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Floats p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Floats y = p * (Floats)(((Bits)shifted << 23) + 0x3f800000u);
  y = x < -87.3f ? zero : y;
  return x != x ? x : y;
}

MSAMP_INLINE Floats score(const float *s, const float *bias, float factor, int64_t i) {
  Floats t = load(s + i) * factor;
  return bias ? t + load(bias + i) : t;
}
MSAMP_INLINE Floats scorePart(const float *s, const float *bias, float factor, int64_t i, int64_t count, float rest) {
  Floats t = loadPart(s + i, count, 0.0f) * factor;
  if (bias)
    t += loadPart(bias + i, count, 0.0f);
  for (int64_t j = count; j < lanes; ++j)
    t[j] = rest;
  return t;
}

float softmax(float *__restrict s, const float *__restrict bias, float factor, int64_t count) {
  const int64_t whole = count / lanes * lanes, part = count - whole;
  Floats top = Floats{} - INFINITY;
  for (int64_t i = 0; i < whole; i += lanes) {
    Floats t = score(s, bias, factor, i);
    store(s + i, t);
    top = t > top ? t : top;
  }
  if (part > 0) {
    Floats t = scorePart(s, bias, factor, whole, part, -INFINITY);
    storePart(s + whole, t, part);
    top = t > top ? t : top;
  }
  float m = top[0];
  for (int64_t j = 1; j < lanes; ++j)
    m = top[j] > m ? top[j] : m;
  if (m == -INFINITY) {
    // Masked whole, unless the row is NaN.
    for (int64_t i = 0; i < count; ++i)
      s[i] = s[i] != s[i] ? s[i] : 0.0f;
    return m;
  }
  Floats acc = {};
  for (int64_t i = 0; i < whole; i += lanes) {
    Floats e = expOf(load(s + i) - m);
    store(s + i, e);
    acc += e;
  }
  if (part > 0) {
    Floats e = expOf(loadPart(s + whole, part, -INFINITY) - m);
    storePart(s + whole, e, part);
    acc += e;
  }
  const float sum = sumLanes(acc), inverse = 1.0f / sum;
  for (int64_t i = 0; i < count; ++i)
    s[i] *= inverse;
  return m + logf(sum);
}

void softmaxGrad(float *__restrict s, float *__restrict dp, const float *__restrict bias, float factor, float lse, float delta,
    int64_t count) {
  if (lse == -INFINITY) {
    memset(s, 0, static_cast<size_t>(count) * 4);
    memset(dp, 0, static_cast<size_t>(count) * 4);
    return;
  }
  const int64_t whole = count / lanes * lanes, part = count - whole;
  for (int64_t i = 0; i < whole; i += lanes) {
    Floats p = expOf(score(s, bias, factor, i) - lse);
    store(s + i, p);
    store(dp + i, p * (load(dp + i) - delta));
  }
  if (part > 0) {
    Floats p = expOf(scorePart(s, bias, factor, whole, part, -INFINITY) - lse);
    storePart(s + whole, p, part);
    storePart(dp + whole, p * (loadPart(dp + whole, part, 0.0f) - delta), part);
  }
}

} // namespace

extern const VectorOps MSAMP_JOIN(vectorOps_, MSAMP_ISA);
const VectorOps MSAMP_JOIN(vectorOps_, MSAMP_ISA) = {MSAMP_STRING(MSAMP_ISA),
    {decodeRunF32, decodeRunBF16, decodeRunF16, decodeRunE4M3, decodeRunE5M2},
    {encodeRunF32, encodeRunBF16, encodeRunF16, encodeRunE4M3, encodeRunE5M2}, largestMagnitude, sumOfSquares, dot, add,
    addScaled, scale, multiply, softmax, softmaxGrad};

} // namespace msamp::runtime::cpu
