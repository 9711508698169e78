// Tensors against values computed in FP64, as one norm.
#ifndef MSAMP_TESTS_EXPECTNEAR_H
#define MSAMP_TESTS_EXPECTNEAR_H

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/runtime/TestTensor.h"

namespace msamp::test {

// All are finite, and the norm of the differences is at most `tolerance` of that of `expected` (in row-major order).
inline void expectNear(const TestTensor &actual, const std::vector<double> &expected, double tolerance, const char *what) {
  double norm = 0, error = 0;
  for (int64_t i = 0; i < actual.count(); ++i) {
    ASSERT_TRUE(std::isfinite(actual.get(i))) << what << " " << i;
    norm += expected[static_cast<size_t>(i)] * expected[static_cast<size_t>(i)];
    error += std::pow(actual.get(i) - expected[static_cast<size_t>(i)], 2);
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm)) << what;
}

} // namespace msamp::test

#endif
