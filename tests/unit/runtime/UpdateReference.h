// The optimizer's update of blocks of 128 values by its formulas, with the argument list of compiled update kernels.
#ifndef MSAMP_TESTS_UPDATEREFERENCE_H
#define MSAMP_TESTS_UPDATEREFERENCE_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/unit/runtime/Fp8Reference.h"

namespace msamp::test {

enum class Stored { None, F32, BF16, F16, E4M3 };

inline double load(Stored type, const void *base, int64_t i) {
  switch (type) {
  case Stored::F32: return static_cast<const float *>(base)[i];
  case Stored::BF16: return bf16().decode(static_cast<const uint16_t *>(base)[i]);
  case Stored::F16: return f16().decode(static_cast<const uint16_t *>(base)[i]);
  case Stored::E4M3: return e4m3().decode(static_cast<const uint8_t *>(base)[i]);
  default: return 0;
  }
}
inline void save(Stored type, void *base, int64_t i, float x) {
  switch (type) {
  case Stored::F32: static_cast<float *>(base)[i] = x; break;
  case Stored::BF16: static_cast<uint16_t *>(base)[i] = static_cast<uint16_t>(bf16().encode(x)); break;
  case Stored::F16: static_cast<uint16_t *>(base)[i] = static_cast<uint16_t>(f16().encode(x)); break;
  case Stored::E4M3: static_cast<uint8_t *>(base)[i] = static_cast<uint8_t>(e4m3().encode(x)); break;
  default: break;
  }
}

// 2^floor(log2(largest / amax)), 1 for 0.
inline float blockScaleOf(Stored type, double amax) {
  if (amax == 0 || !std::isfinite(amax))
    return 1.0f;
  const double largest = type == Stored::E4M3 ? 448.0 : 65504.0;
  int exponent;
  std::frexp(largest / amax, &exponent); // in [2^(exponent-1), 2^exponent)
  return std::ldexp(1.0f, std::clamp(exponent - 1, -126, 126));
}

struct UpdateReference {
  Stored weight, master, grad, m, v;
  bool sgd;

  void run(void *const *args, int64_t begin, int64_t end) const {
    const float *h = static_cast<const float *>(args[13]);
    const double lr = h[0], beta1 = h[1], beta2 = h[2], eps = h[3], decay = h[4], factor = h[5], bias1 = h[6], bias2 = h[7];
    auto perBlock = [&](int index, int64_t block) -> double {
      return args[index] ? static_cast<const float *>(args[index])[block] : 1.0;
    };
    for (int64_t block = begin; block < end; ++block) {
      float ms[128], vs[128];
      double amax = 0, amaxM = 0, amaxV = 0;
      for (int64_t j = 0; j < 128; ++j) {
        const int64_t i = block * 128 + j;
        const double g = load(grad, args[2], i) / perBlock(3, block) * factor;
        double x = master != Stored::None ? load(master, args[1], i) / perBlock(10, block) : load(weight, args[0], i) / perBlock(8, block);
        const double mOld = load(m, args[4], i) / perBlock(5, block), vOld = v == Stored::None ? 0 : load(v, args[6], i) / perBlock(7, block);
        double mNew, vNew = 0;
        if (sgd) {
          mNew = beta1 * mOld + g;
          x = x - lr * (mNew + decay * x);
        } else {
          mNew = beta1 * mOld + (1 - beta1) * g;
          vNew = beta2 * vOld + (1 - beta2) * g * g;
          x = x - lr * (mNew * bias1 / (std::sqrt(vNew * bias2) + eps) + decay * x);
        }
        ms[j] = static_cast<float>(mNew);
        vs[j] = static_cast<float>(vNew);
        amaxM = std::max(amaxM, std::fabs(static_cast<double>(ms[j])));
        amaxV = std::max(amaxV, std::fabs(static_cast<double>(vs[j])));
        const auto value = static_cast<float>(x);
        amax = std::max(amax, std::fabs(static_cast<double>(value)));
        save(weight, args[0], i, static_cast<float>(value * perBlock(9, block)));
        if (master != Stored::None)
          save(master, args[1], i, static_cast<float>(value * perBlock(11, block)));
      }
      storeMoments(m, args[4], static_cast<float *>(args[5]), block, ms, amaxM);
      if (v != Stored::None)
        storeMoments(v, args[6], static_cast<float *>(args[7]), block, vs, amaxV);
      static_cast<float *>(args[12])[block] = static_cast<float>(amax);
    }
  }

  static void storeMoments(Stored type, void *base, float *scales, int64_t block, const float *values, double amax) {
    const float scale = scales ? blockScaleOf(type, amax) : 1.0f;
    if (scales)
      scales[block] = scale;
    for (int64_t j = 0; j < 128; ++j)
      save(type, base, block * 128 + j, values[j] * scale);
  }
};

} // namespace msamp::test

#endif
