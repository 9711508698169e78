#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/core/Fp8.h"
#include "runtime/core/Scale.h"
#include "runtime/device/Device.h"
#include "tests/unit/runtime/Fp8Reference.h"

using namespace msamp::runtime;
using msamp::test::Format;

namespace {

// Values where rounding decides: all codes, the middles between neighbours, and the floats beside them; ends of the range; a
// sample of everything.
std::vector<float> hardCases(const Format &format) {
  std::vector<float> cases = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 0x1p-149f, 0x1.fffffep127f, -0x1.fffffep127f,
      floatOf(0x7f800001u), floatOf(0xffffffffu)};
  auto add = [&](double value) {
    const auto x = static_cast<float>(value);
    for (float y : {x, std::nextafter(x, INFINITY), std::nextafter(x, -INFINITY)}) {
      cases.push_back(y);
      cases.push_back(-y);
    }
  };
  for (size_t code = 0; code < format.values.size(); ++code) {
    add(format.values[code]);
    if (code > 0)
      add((format.values[code] + format.values[code - 1]) / 2);
  }
  add(2 * format.values.back() - format.values[format.values.size() - 2]);
  add(1.5 * format.values.back() - 0.5 * format.values[format.values.size() - 2]);
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i)
    cases.push_back(floatOf(static_cast<uint32_t>(random())));
  while (cases.size() % 37 != 0) // an odd length, so that the ends of vector loops are run
    cases.push_back(1.0f);
  return cases;
}

struct Codec {
  Type type;
  const Format &(*format)();
  unsigned (*encode)(float);
  float (*decode)(unsigned);
};

class Fp8 : public testing::TestWithParam<Codec> {};

TEST_P(Fp8, ScalarConversionIsNearestEven) {
  const Codec &codec = GetParam();
  for (float x : hardCases(codec.format())) {
    if (std::isnan(x) && !isFp8(codec.type)) {
      EXPECT_TRUE(std::isnan(codec.decode(codec.encode(x))));
      continue;
    }
    ASSERT_EQ(codec.encode(x), codec.format().encode(x)) << std::hexfloat << x << " bits " << bitsOf(x);
  }
}

TEST_P(Fp8, DecodingGivesTheDefinedValues) {
  const Codec &codec = GetParam();
  const Format &format = codec.format();
  for (unsigned code = 0; code < 2 * format.signBit(); ++code) {
    const double expected = format.decode(code);
    const float value = codec.decode(code);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(value)) << code;
    else
      ASSERT_EQ(bitsOf(value), bitsOf(static_cast<float>(expected))) << code;
  }
}

TEST_P(Fp8, VectorLoopsAgreeWithScalars) {
  const Codec &codec = GetParam();
  auto device = makeDevice({"cpu", 1});
  const std::vector<float> cases = hardCases(codec.format());
  std::vector<uint16_t> stored(cases.size());
  std::vector<float> back(cases.size());
  const auto count = static_cast<int64_t>(cases.size());
  device->encode(codec.type, cases.data(), stored.data(), count);
  device->decode(codec.type, stored.data(), back.data(), count);
  for (size_t i = 0; i < cases.size(); ++i) {
    const unsigned code = sizeOf(codec.type) == 1 ? reinterpret_cast<uint8_t *>(stored.data())[i] : stored[i];
    ASSERT_EQ(code, codec.encode(cases[i])) << std::hexfloat << cases[i];
    ASSERT_EQ(bitsOf(back[i]), bitsOf(codec.decode(code))) << code;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Fp8,
    testing::Values(Codec{Type::E4M3, msamp::test::e4m3, [](float x) -> unsigned { return encodeE4M3(x); },
                        [](unsigned c) { return decodeE4M3(static_cast<uint8_t>(c)); }},
        Codec{Type::E5M2, msamp::test::e5m2, [](float x) -> unsigned { return encodeE5M2(x); },
            [](unsigned c) { return decodeE5M2(static_cast<uint8_t>(c)); }},
        Codec{Type::F16, msamp::test::f16, [](float x) -> unsigned { return encodeF16(x); },
            [](unsigned c) { return decodeF16(static_cast<uint16_t>(c)); }},
        Codec{Type::BF16, msamp::test::bf16, [](float x) -> unsigned { return encodeBF16(x); },
            [](unsigned c) { return decodeBF16(static_cast<uint16_t>(c)); }}),
    [](const auto &info) { return std::string(nameOf(info.param.type)); });

TEST(Scale, IsTheLargestPowerOfTwoThatFits) {
  std::mt19937 random(3);
  for (Type type : {Type::E4M3, Type::E5M2, Type::F16})
    for (int i = 0; i < 100000; ++i) {
      const float amax = floatOf(static_cast<uint32_t>(random()) & 0x7fffffffu);
      const float scale = scaleOf(amax, type);
      if (!std::isfinite(amax) || amax == 0) {
        EXPECT_EQ(scale, 1.0f);
        continue;
      }
      int exponent;
      ASSERT_EQ(std::frexp(scale, &exponent), 0.5f);
      const double scaled = static_cast<double>(amax) * scale, largest = largestOf(type);
      ASSERT_TRUE(scale >= 0x1p126f || 2 * scaled > largest) << amax;
      ASSERT_TRUE(scale <= 0x1p-126f || scaled <= largest) << amax;
    }
  EXPECT_EQ(scaleOf(448.0f, Type::E4M3), 1.0f);
  EXPECT_EQ(scaleOf(449.0f, Type::E4M3), 0.5f);
  EXPECT_EQ(scaleOf(448.0f, Type::E4M3, 2), 0.25f);
  EXPECT_EQ(scaleOf(0x1p-149f, Type::E4M3), 0x1p126f);
  EXPECT_EQ(scaleOf(INFINITY, Type::E4M3), 1.0f);
  EXPECT_EQ(scaleOf(NAN, Type::E4M3), 1.0f);
}

} // namespace
