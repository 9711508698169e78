// Hand-made plans: a linear layer trained to make its outputs small, at the storage types of each level.
#ifndef MSAMP_TESTS_TESTPLAN_H
#define MSAMP_TESTS_TESTPLAN_H

#include <filesystem>
#include <string>

#include "runtime/plan/PlanIO.h"

namespace msamp::test {

struct TestPlanOptions {
  std::string level = "fp32"; // storage of the matrix: fp32, bf16, o1, o2, o3; also fp32-sgd
  unsigned accumulate = 1;
  unsigned zero = 0;
  plan::Type wire = plan::NONE; // NONE: the stored type of the gradients
  unsigned margin = 0;          // of the gradient's delayed scale (o1 to o3)
};

// Parameters "w" [rows, columns] and "b" [columns] (class of their own at o1 to o3), input "x" [batch, rows]; the loss is the mean
// of (x w + b - 1)^2 / 2. Written to `folder` with its kernels.
inline constexpr int64_t testBatch = 8, testRows = 48, testColumns = 40;
void writeTestPlan(const std::filesystem::path &folder, const TestPlanOptions &options);
plan::Plan makeTestPlan(const TestPlanOptions &options);

} // namespace msamp::test

#endif
