// Sample numbers and the draw from them.
#include "runtime/data/Sampler.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

using namespace msamp::data;

TEST(Sampler, NumbersCountRowsWithinMicroBatchesWithinSteps) {
  EXPECT_EQ(sampleNumber(0, 2, 0, 16, 0), 0u);
  EXPECT_EQ(sampleNumber(0, 2, 1, 16, 3), 19u);
  EXPECT_EQ(sampleNumber(5, 2, 1, 16, 3), 5u * 32 + 19);
}

TEST(Sampler, DrawIsAFunctionOfSeedAndNumber) {
  EXPECT_EQ(drawSample(1, 2, 1000), drawSample(1, 2, 1000));
  std::set<uint64_t> bySeed, byNumber;
  for (uint64_t i = 0; i < 100; ++i) {
    bySeed.insert(drawSample(i, 7, 1ull << 60));
    byNumber.insert(drawSample(7, i, 1ull << 60));
  }
  EXPECT_EQ(bySeed.size(), 100u);
  EXPECT_EQ(byNumber.size(), 100u);
}

TEST(Sampler, DrawIsUniform) {
  constexpr uint64_t bins = 10, draws = 100000;
  std::vector<uint64_t> counts(bins);
  for (uint64_t i = 0; i < draws; ++i) {
    uint64_t value = drawSample(0, i, bins);
    ASSERT_LT(value, bins);
    ++counts[value];
  }
  double chiSquare = 0, mean = static_cast<double>(draws) / bins;
  for (uint64_t count : counts)
    chiSquare += (static_cast<double>(count) - mean) * (static_cast<double>(count) - mean) / mean;
  EXPECT_LT(chiSquare, 27.9); // 9 degrees of freedom, p = 0.001
}

TEST(Sampler, OnePlaceIsAlwaysDrawn) {
  for (uint64_t i = 0; i < 100; ++i)
    EXPECT_EQ(drawSample(3, i, 1), 0u);
}
