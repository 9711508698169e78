// Bounds derived from what a plan rounds.
#include "runtime/train/Tolerance.h"

#include <gtest/gtest.h>

using namespace msamp;

static plan::Plan planOf(const std::string &level, int steps, bool fp8) {
  plan::Plan plan;
  plan.set_level(level);
  plan.set_tokens_per_micro_batch(256);
  plan::Program *program = plan.add_targets()->add_programs();
  program->set_name("eval");
  for (int i = 0; i < steps; ++i) {
    plan::Step *step = program->add_steps();
    step->mutable_matmul()->set_fp8_values(fp8);
    step->add_outputs()->set_type(level == "fp32" ? plan::F32 : plan::BF16);
  }
  return plan;
}

static train::Tolerances boundsOf(const plan::Plan &plan) { return train::tolerancesOf(plan, plan.targets(0)); }

TEST(Tolerance, Fp32IsFixed) {
  auto bounds = boundsOf(planOf("fp32", 30, false));
  EXPECT_EQ(bounds.loss, 1e-5);
  EXPECT_EQ(bounds.outputs, 1e-4);
  EXPECT_EQ(bounds.gradients, 1e-4);
}

TEST(Tolerance, GrowsWithRoundingsAndTheirSize) {
  auto shallow = boundsOf(planOf("bf16", 10, false)), deep = boundsOf(planOf("bf16", 40, false));
  auto fp8 = boundsOf(planOf("O2", 10, true));
  EXPECT_NEAR(deep.outputs / shallow.outputs, 2, 1e-12);
  EXPECT_GT(fp8.outputs, 10 * shallow.outputs);
  EXPECT_GT(fp8.gradients, fp8.outputs);
  double outputs = fp8.outputs / 2; // without what single tensors are amplified by
  EXPECT_NEAR(fp8.loss, outputs / 16 + outputs * outputs, 1e-12);
}
