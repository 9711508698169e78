// The learning rate against its formulas.
#include "runtime/train/Schedule.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace msamp::train;

static Schedule schedule(Decay decay) {
  return {1e-3, 1e-4, 10, 110, decay};
}

TEST(Schedule, WarmsUpLinearlyToTheRate) {
  for (Decay decay : {Decay::Constant, Decay::Linear, Decay::Cosine}) {
    EXPECT_DOUBLE_EQ(schedule(decay).at(0), 1e-4);
    EXPECT_DOUBLE_EQ(schedule(decay).at(4), 5e-4);
    EXPECT_DOUBLE_EQ(schedule(decay).at(9), 1e-3);
    EXPECT_DOUBLE_EQ(schedule(decay).at(10), 1e-3);
  }
}

TEST(Schedule, DecaysAsItsNameSays) {
  EXPECT_DOUBLE_EQ(schedule(Decay::Constant).at(109), 1e-3);
  EXPECT_DOUBLE_EQ(schedule(Decay::Linear).at(60), 5.5e-4);
  EXPECT_DOUBLE_EQ(schedule(Decay::Cosine).at(60), 5.5e-4);
  EXPECT_DOUBLE_EQ(schedule(Decay::Cosine).at(35), 1e-4 + 9e-4 * 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_NEAR(schedule(Decay::Linear).at(109), 1e-4 + 9e-6, 1e-12);
  EXPECT_DOUBLE_EQ(schedule(Decay::Cosine).at(1000), 1e-4); // beyond the end it stays
}

TEST(Schedule, AWarmUpLongerThanTheRunIsAllowed) {
  Schedule rates{1e-3, 1e-4, 50, 20, Decay::Cosine};
  EXPECT_DOUBLE_EQ(rates.at(19), 4e-4);
  EXPECT_DOUBLE_EQ(rates.at(50), 1e-3);
}
