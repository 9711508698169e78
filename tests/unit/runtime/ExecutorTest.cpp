#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "runtime/core/Scale.h"
#include "tests/unit/runtime/ExpectError.h"
#include "tests/unit/runtime/Training.h"

using namespace msamp::runtime;
using namespace msamp::test;

namespace plan = msamp::plan;

namespace {

Trained run(const TestPlanOptions &options, unsigned steps, unsigned threads = 1, Hyper hyper = {}) {
  TempFolder folder;
  writeTestPlan(folder.path(), options);
  auto comm = makeSingleCommunicator();
  return trainTestPlan(folder.path(), *comm, steps, threads, hyper);
}

struct Fixture {
  TempFolder folder;
  std::unique_ptr<Device> device = makeDevice({"cpu", 2});
  std::unique_ptr<Communicator> comm = makeSingleCommunicator();
  std::unique_ptr<Executor> executor;
  explicit Fixture(const TestPlanOptions &options) {
    writeTestPlan(folder.path(), options);
    executor = Executor::create(loadPlan(folder.path()), *device, *comm);
    executor->initialize(3);
  }
  void microStep(unsigned sampleIndex = 0) {
    const std::vector<float> x = sample(sampleIndex);
    std::memcpy(executor->inputHost(0), x.data(), executor->inputBytes(0));
    executor->microStep(0, 1);
  }
  std::vector<float> parameter(const std::string &name) {
    std::vector<float> values;
    executor->readParameter(name, values);
    return values;
  }
  std::vector<float> gradient(const std::string &name) {
    std::vector<float> values;
    executor->readGradient(name, values);
    return values;
  }
};

// The same training in double precision, from the formulas.
struct Model {
  std::vector<double> w, b, mw, mb, vw, vb, dw, db;
  double loss = 0, norm = 0;
  explicit Model(const std::vector<float> &start)
      : w(start.begin(), start.end()), b(testColumns), mw(w.size()), mb(testColumns), vw(w.size()), vb(testColumns), dw(w.size()),
        db(testColumns) {}

  void gradients(const std::vector<float> &x) {
    std::fill(dw.begin(), dw.end(), 0.0);
    std::fill(db.begin(), db.end(), 0.0);
    loss = 0;
    for (int64_t i = 0; i < testBatch; ++i)
      for (int64_t j = 0; j < testColumns; ++j) {
        double y = b[static_cast<size_t>(j)] - 1;
        for (int64_t k = 0; k < testRows; ++k)
          y += static_cast<double>(x[static_cast<size_t>(i * testRows + k)]) * w[static_cast<size_t>(k * testColumns + j)];
        loss += y * y / 2 / (testBatch * testColumns);
        const double dy = y / (testBatch * testColumns);
        db[static_cast<size_t>(j)] += dy;
        for (int64_t k = 0; k < testRows; ++k)
          dw[static_cast<size_t>(k * testColumns + j)] += x[static_cast<size_t>(i * testRows + k)] * dy;
      }
    norm = std::sqrt(std::inner_product(dw.begin(), dw.end(), dw.begin(), 0.0) + std::inner_product(db.begin(), db.end(), db.begin(), 0.0));
  }
  void adamw(const Hyper &h, int t) {
    const double factor = std::min(1.0, h.clip / (norm + 1e-6));
    auto one = [&](double &x, double g, double &m, double &v) {
      g *= factor;
      m = h.beta1 * m + (1 - h.beta1) * g;
      v = h.beta2 * v + (1 - h.beta2) * g * g;
      x -= h.lr * (m / (1 - std::pow(h.beta1, t)) / (std::sqrt(v / (1 - std::pow(h.beta2, t))) + h.eps) + h.weightDecay * x);
    };
    for (size_t i = 0; i < w.size(); ++i)
      one(w[i], dw[i], mw[i], vw[i]);
    for (size_t i = 0; i < b.size(); ++i)
      one(b[i], db[i], mb[i], vb[i]);
  }
};

TEST(Executor, TrainsAsTheFormulasSay) {
  Fixture f({});
  Model model(f.parameter("w"));
  Hyper hyper;
  hyper.lr = 0.01;
  hyper.clip = 0.05; // at work in the first steps
  for (int step = 0; step < 30; ++step) {
    f.microStep(static_cast<unsigned>(step));
    model.gradients(sample(static_cast<unsigned>(step)));
    const std::vector<float> dw = f.gradient("w");
    for (size_t i = 0; i < dw.size(); ++i)
      ASSERT_NEAR(dw[i], model.dw[i], 1e-6 + 1e-4 * std::fabs(model.dw[i]));
    const StepResult result = f.executor->update(hyper);
    model.adamw(hyper, step + 1);
    EXPECT_NEAR(result.loss, model.loss, 1e-5 * model.loss);
    EXPECT_NEAR(result.gradNorm, model.norm, 1e-5 * model.norm);
    EXPECT_FALSE(result.skipped);
  }
  const std::vector<float> w = f.parameter("w"), b = f.parameter("b");
  for (size_t i = 0; i < w.size(); ++i)
    ASSERT_NEAR(w[i], model.w[i], 2e-5);
  for (size_t i = 0; i < b.size(); ++i)
    ASSERT_NEAR(b[i], model.b[i], 2e-5);
  EXPECT_EQ(f.executor->appliedSteps(), 30u);
}

TEST(Executor, EveryLevelLearns) {
  const Trained fp32 = run({"fp32"}, 60, 1, {.lr = 0.02});
  ASSERT_LT(fp32.losses.back(), 0.3 * fp32.losses.front());
  for (const char *level : {"bf16", "o1", "o2", "o3"}) {
    const Trained other = run({level}, 60, 1, {.lr = 0.02});
    EXPECT_NEAR(other.losses.back(), fp32.losses.back(), 0.15 * fp32.losses.back()) << level;
    EXPECT_NEAR(other.losses.front(), fp32.losses.front(), 0.05 * fp32.losses.front()) << level;
  }
  const Trained sgd = run({"fp32-sgd"}, 60, 1, {.lr = 0.5});
  EXPECT_LT(sgd.losses.back(), 0.3 * sgd.losses.front());
}

TEST(Executor, RunsAndThreadsGiveTheSameBits) {
  for (const char *level : {"fp32", "bf16", "o1", "o2", "o3"}) {
    const Trained first = run({level}, 6), again = run({level}, 6), threads = run({level}, 6, 3);
    EXPECT_TRUE(first == again) << level;
    EXPECT_TRUE(first == threads) << level;
  }
}

TEST(Executor, StateBytesAreThoseOfTheLevel) {
  constexpr uint64_t values = testRows * testColumns, vector = testColumns;
  auto check = [&](const char *level, uint64_t weights, uint64_t master, uint64_t gradients, uint64_t moments) {
    const RoleBytes bytes = run({level}, 1).memory;
    auto of = [&](Role role) { return bytes[static_cast<size_t>(role)]; };
    EXPECT_EQ(of(Role::Weights), weights * values + 4 * vector) << level;
    EXPECT_EQ(of(Role::Master), master * values) << level;
    EXPECT_EQ(of(Role::Gradients), gradients * values + 4 * vector) << level;
    EXPECT_EQ(of(Role::Moments), moments * values + 8 * vector) << level;
  };
  check("fp32", 4, 0, 4, 8);
  check("bf16", 2, 4, 2, 8);
  check("o1", 2, 0, 1, 8);
  check("o2", 2, 0, 1, 3);
  check("o3", 1, 2, 1, 3);
}

TEST(Executor, ANonFiniteGradientSkipsTheStep) {
  for (const char *level : {"fp32", "o2"}) {
    Fixture f({level});
    f.microStep(0);
    f.executor->update({});
    const std::vector<float> before = f.parameter("w");
    for (float bad : {NAN, INFINITY}) {
      static_cast<float *>(f.executor->inputHost(0))[5] = bad;
      f.executor->microStep(0, 1);
      EXPECT_TRUE(f.executor->update({}).skipped) << level;
    }
    EXPECT_EQ(f.parameter("w"), before) << level;
    EXPECT_EQ(f.executor->appliedSteps(), 1u);
    EXPECT_EQ(f.executor->scaleHealth().skippedSteps, 2u);
    f.microStep(1);
    EXPECT_FALSE(f.executor->update({}).skipped) << level;
    EXPECT_NE(f.parameter("w"), before) << level;
  }
}

// E4M3 has 3 bits of mantissa: what is not tiny is within a sixteenth, if the scale is right from the first step on.
TEST(Executor, TheFirstScaleComesFromTheTensorItself) {
  Fixture exact({"fp32"}), narrow({"o1"});
  exact.microStep(0);
  narrow.microStep(0);
  const std::vector<float> a = exact.gradient("w"), b = narrow.gradient("w");
  float amax = 0;
  for (float x : a)
    amax = std::max(amax, std::fabs(x));
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_NEAR(b[i], a[i], std::fabs(a[i]) / 16 + amax / 4096 + 1e-3 * amax);
  EXPECT_EQ(narrow.executor->scaleHealth().sites, 1u);
  EXPECT_FALSE(narrow.executor->calibrateOnly()) << "the calibrated scale is not that of the history";
}

// From the first step, when the scale comes from the tensor itself, and later, when it comes from the history.
TEST(Executor, AMarginKeepsDelayedScalesBelowTheRange) {
  plan::Operand operand;
  operand.set_kind(plan::Operand::SITE_SCALE);
  auto scalesOf = [&](unsigned margin) {
    TestPlanOptions options{"o1"};
    options.margin = margin;
    Fixture f(options);
    const auto *scale = static_cast<const float *>(f.executor->address("micro_step", operand));
    std::vector<float> scales;
    f.microStep(0);
    scales.push_back(*scale);
    f.executor->calibrateOnly();
    scales.push_back(*scale);
    return scales;
  };
  const std::vector<float> full = scalesOf(0), below = scalesOf(3);
  for (size_t i = 0; i < full.size(); ++i)
    EXPECT_EQ(below[i], full[i] / 8) << i;
}

TEST(Executor, DelayedScalesFollowTheLargestOfTheHistory) {
  Fixture f({"o1"});
  const auto *scale = static_cast<const float *>(f.executor->address("micro_step", [] {
    plan::Operand operand;
    operand.set_kind(plan::Operand::SITE_SCALE);
    return operand;
  }()));
  auto stepWith = [&](float factor) {
    for (int64_t i = 0; i < testBatch * testRows; ++i)
      static_cast<float *>(f.executor->inputHost(0))[i] = factor * sample(0)[static_cast<size_t>(i)];
    f.executor->microStep(0, 1);
    f.executor->calibrateOnly();
    return *scale;
  };
  const float first = stepWith(1);
  EXPECT_LT(stepWith(64), first / 1000); // gradients go with the square
  EXPECT_EQ(f.executor->scaleHealth().saturated, 1u);
  const float low = *scale;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(stepWith(1), low); // a history of 4
  EXPECT_EQ(stepWith(1), first);
}

TEST(Executor, MicroBatchesAddUp) {
  for (const char *level : {"fp32", "bf16", "o2"}) {
    Fixture f({level, 3});
    Fixture single({"fp32"});
    std::vector<double> sum(testRows * testColumns);
    for (int repeat = 0; repeat < 2; ++repeat) // the second step starts afresh
      for (unsigned i = 0; i < 3; ++i) {
        const std::vector<float> x = sample(i);
        std::memcpy(f.executor->inputHost(0), x.data(), f.executor->inputBytes(0));
        f.executor->microStep(i, 3);
        single.microStep(i);
        const std::vector<float> part = single.gradient("w");
        for (size_t j = 0; j < sum.size() && repeat == 1; ++j)
          sum[j] += part[j];
      }
    const std::vector<float> total = f.gradient("w");
    double error = 0, norm = 0;
    for (size_t j = 0; j < sum.size(); ++j) {
      error += std::pow(total[j] - sum[j], 2);
      norm += sum[j] * sum[j];
    }
    EXPECT_LT(std::sqrt(error / norm), level == std::string("fp32") ? 1e-6 : 2e-2) << level;
    EXPECT_NEAR(f.executor->update({}).gradNorm, std::sqrt(norm) / 3, 0.1 * std::sqrt(norm)) << level;
  }
}

TEST(Executor, EvalLeavesTheStateAlone) {
  Fixture f({});
  f.microStep(0);
  const float loss = f.executor->lastLoss();
  const std::vector<float> gradient = f.gradient("w");
  f.executor->eval();
  EXPECT_EQ(f.executor->lastLoss(), loss);
  EXPECT_EQ(f.gradient("w"), gradient);
  const std::vector<float> y = f.executor->output("y");
  ASSERT_EQ(y.size(), static_cast<size_t>(testBatch * testColumns));
  expectError(70, "no output none", [&] { f.executor->output("none"); });
  expectError(70, "no parameter none", [&] { f.parameter("none"); });
}

TEST(Executor, TwinsAreReadInTheirOwnLayout) {
  Fixture f({});
  const std::vector<float> w = f.parameter("w"), twin = f.parameter("w.twin");
  for (int64_t i = 0; i < testRows; ++i)
    for (int64_t j = 0; j < testColumns; ++j)
      ASSERT_EQ(twin[static_cast<size_t>(j * testRows + i)], w[static_cast<size_t>(i * testColumns + j)]);
}

TEST(Executor, DrawsAreNormalAndDependOnSeedAndName) {
  Fixture f({});
  const std::vector<float> w = f.parameter("w");
  const double mean = std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
  const double square = std::inner_product(w.begin(), w.end(), w.begin(), 0.0) / static_cast<double>(w.size());
  EXPECT_NEAR(mean, 0, 0.1 * 4 / std::sqrt(static_cast<double>(w.size())));
  EXPECT_NEAR(std::sqrt(square), 0.1, 0.01);
  f.executor->initialize(4);
  EXPECT_NE(f.parameter("w"), w);
  f.executor->initialize(3);
  EXPECT_EQ(f.parameter("w"), w);
  // The values are part of what a seed means: they must not change with the program.
  EXPECT_FLOAT_EQ(w[0], f.parameter("w")[0]);
  Fixture narrow({"o3"});
  const std::vector<float> master = narrow.parameter("w");
  for (size_t i = 0; i < w.size(); ++i)
    ASSERT_NEAR(master[i], w[i], std::fabs(w[i]) / 2048 + 1e-7);
}

} // namespace
