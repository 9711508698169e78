// FP8 conversions as kernels do them against the formats' definition: every float next to a tie or a bound, and a
// sample of all.
#include "tests/unit/codegen/Library.h"
#include "tests/unit/runtime/Fp8Reference.h"

#include <gtest/gtest.h>

#include <cstring>

namespace msamp::test {
namespace {

float real(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

TEST(Fp8Kernels, EncodeAndDecodeByDefinition) {
  Fp8Kernels kernels;
  std::vector<float> values;
  auto around = [&](double x) {
    float f = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    for (int d = -2; d <= 2; ++d)
      values.push_back(real(bits + d)), values.push_back(-real(bits + d));
  };
  for (const Format *format : {&e4m3(), &e5m2()})
    for (unsigned code = 0; code <= format->largestCode; ++code) {
      around(format->values[code]);
      if (code)
        around((format->values[code] + format->values[code - 1]) / 2);
    }
  for (uint32_t bits :
       {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0x7F7FFFFFu, 0xFF7FFFFFu, 1u, 0x80000001u})
    values.push_back(real(bits));
  for (uint64_t i = 0; values.size() < 16 * Fp8Kernels::count; ++i)
    values.push_back(real(static_cast<uint32_t>(i * 2654435761u)));
  std::vector<uint8_t> a(Fp8Kernels::count), b(Fp8Kernels::count);
  for (size_t start = 0; start < values.size(); start += Fp8Kernels::count) {
    kernels.encode(values.data() + start, a.data(), b.data());
    for (int64_t i = 0; i < Fp8Kernels::count; ++i) {
      float x = values[start + i];
      ASSERT_EQ(a[i], e4m3().encode(x)) << x;
      ASSERT_EQ(b[i], e5m2().encode(x)) << x;
    }
  }
  uint8_t codes[256];
  for (int c = 0; c < 256; ++c)
    codes[c] = static_cast<uint8_t>(c);
  float x[256], y[256];
  kernels.decode(codes, codes, x, y);
  for (int c = 0; c < 256; ++c) {
    for (auto [value, format] : {std::pair(x[c], &e4m3()), std::pair(y[c], &e5m2())}) {
      double expected = format->decode(c);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(value)) << c;
      else
        EXPECT_EQ(value, expected) << c;
    }
  }
}

} // namespace
} // namespace msamp::test
