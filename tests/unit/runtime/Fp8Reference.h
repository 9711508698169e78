// FP8 and the other narrow formats by their definition: the list of all values, and the nearest one. Shares nothing with
// the conversions under test.
#ifndef MSAMP_TESTS_FP8REFERENCE_H
#define MSAMP_TESTS_FP8REFERENCE_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace msamp::test {

// A binary format of sign, exponent and mantissa. OCP 8-bit floating point specification 1.0, table 1.
struct Format {
  int exponentBits, mantissaBits, bias;
  unsigned largestCode;  // of a finite value
  bool infinity;         // has one, right above the largest code
  bool saturates;        // when converted to
  std::vector<double> values; // of codes 0 .. largestCode, ascending

  Format(int exponentBits, int mantissaBits, int bias, unsigned largestCode, bool infinity, bool saturates)
      : exponentBits(exponentBits), mantissaBits(mantissaBits), bias(bias), largestCode(largestCode), infinity(infinity),
        saturates(saturates) {
    for (unsigned code = 0; code <= largestCode; ++code) {
      const int exponent = static_cast<int>(code >> mantissaBits);
      const double fraction = static_cast<double>(code & ((1u << mantissaBits) - 1)) / static_cast<double>(1u << mantissaBits);
      values.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1.0 + fraction, exponent - bias));
    }
  }
  unsigned signBit() const { return 1u << (exponentBits + mantissaBits); }

  double decode(unsigned code) const {
    const unsigned magnitude = code & (signBit() - 1);
    double value = magnitude <= largestCode ? values[magnitude]
                   : infinity && magnitude == largestCode + 1 ? std::numeric_limits<double>::infinity()
                                                              : std::numeric_limits<double>::quiet_NaN();
    return code & signBit() ? -value : value;
  }

  // NaN: 0x7f for FP8, as CUDA's conversions give; not asked of the others.
  unsigned encode(double x) const {
    if (std::isnan(x))
      return 0x7f;
    const unsigned sign = std::signbit(x) ? signBit() : 0;
    const double a = std::fabs(x);
    const auto above = std::lower_bound(values.begin(), values.end(), a);
    if (above == values.end()) {
      if (saturates)
        return sign | largestCode;
      // Half a step beyond the largest value rounds to infinity.
      const double half = values[largestCode] + (values[largestCode] - values[largestCode - 1]) / 2;
      return sign | (a < half ? largestCode : largestCode + 1);
    }
    const auto high = static_cast<unsigned>(above - values.begin());
    if (*above == a || high == 0)
      return sign | high;
    const double up = *above - a, down = a - values[high - 1]; // exact: few bits
    if (up != down)
      return sign | (up < down ? high : high - 1);
    return sign | (high % 2 == 0 ? high : high - 1);
  }
};

inline const Format &e4m3() {
  static const Format format(4, 3, 7, 0x7e, false, true);
  return format;
}
inline const Format &e5m2() {
  static const Format format(5, 2, 15, 0x7b, true, true);
  return format;
}
inline const Format &f16() {
  static const Format format(5, 10, 15, 0x7bff, true, false);
  return format;
}
inline const Format &bf16() {
  static const Format format(8, 7, 127, 0x7f7f, true, false);
  return format;
}

} // namespace msamp::test

#endif
