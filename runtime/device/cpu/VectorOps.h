// Loops compiled once for each generation of x86-64; the best one that the processor has is chosen at run time.
#ifndef MSAMP_RUNTIME_DEVICE_CPU_VECTOROPS_H
#define MSAMP_RUNTIME_DEVICE_CPU_VECTOROPS_H

#include <cstdint>

namespace msamp::runtime::cpu {

// Sums go by 16 lanes and then in a fixed tree, so their bits do not depend on the processor's vector width.
struct VectorOps {
  const char *name;
  // Indexed by Type: F32, BF16, F16, E4M3, E5M2.
  void (*decode[5])(const void *source, float *destination, int64_t count);
  void (*encode[5])(const float *source, void *destination, int64_t count);
  // Bits of the largest magnitude; above those of infinity if there is a NaN.
  uint32_t (*largestMagnitude)(const float *x, int64_t count);
  double (*sumOfSquares)(const float *x, int64_t count);
  float (*dot)(const float *x, const float *y, int64_t count);
  void (*add)(float *sum, const float *x, int64_t count);
  // sum += x * factor
  void (*addScaled)(float *sum, const float *x, float factor, int64_t count);
  void (*scale)(float *x, float factor, int64_t count);
  void (*multiply)(float *x, const float *factors, int64_t count);
  // s = softmax(s * factor + bias) and its log-sum-exp; a row of -inf gives zeros. bias may be null.
  float (*softmax)(float *s, const float *bias, float factor, int64_t count);
  // s = exp(s * factor + bias - lse), dp = s * (dp - delta)
  void (*softmaxGrad)(float *s, float *dp, const float *bias, float factor, float lse, float delta, int64_t count);
};

const VectorOps &vectorOps();

} // namespace msamp::runtime::cpu

#endif
