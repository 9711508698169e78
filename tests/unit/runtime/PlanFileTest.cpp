#include <gtest/gtest.h>

#include "tests/unit/runtime/ExpectError.h"
#include "tests/unit/runtime/TempFolder.h"
#include "tests/unit/runtime/TestPlan.h"

using namespace msamp::runtime;
using namespace msamp::test;

namespace plan = msamp::plan;

namespace {

TEST(PlanFile, ComesBackAsWritten) {
  TempFolder folder;
  writeTestPlan(folder.path(), {});
  LoadedPlan loaded = loadPlan(folder.path());
  EXPECT_EQ(loaded.plan.level(), "fp32");
  EXPECT_EQ(loaded.plan.major(), planMajor);
  EXPECT_NE(loaded.program("update"), nullptr);
  EXPECT_EQ(loaded.program("none"), nullptr);
  EXPECT_EQ(loaded.plan.digest().size(), 32u);
}

TEST(PlanFile, EveryFlippedBitIsSeen) {
  TempFolder folder;
  writeTestPlan(folder.path(), {});
  const auto path = folder.path() / "plan.pb";
  const std::string good = readFile(path);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    writeFile(path, bad);
    expectError(65, "altered", [&] { loadPlan(folder.path()); });
  }
}

TEST(PlanFile, EveryTruncationIsSeen) {
  TempFolder folder;
  writeTestPlan(folder.path(), {});
  const auto path = folder.path() / "plan.pb";
  const std::string good = readFile(path);
  for (size_t length = 0; length < good.size(); length += 1 + length / 16) {
    writeFile(path, good.substr(0, length));
    expectError(65, "truncated or altered", [&] { loadPlan(folder.path()); });
  }
}

TEST(PlanFile, PartsAreChecked) {
  TempFolder folder;
  writeTestPlan(folder.path(), {});
  const auto kernels = folder.path() / "kernels" / "cpu.so";
  std::string bytes = readFile(kernels);
  bytes[bytes.size() / 2] ^= 4;
  writeFile(kernels, bytes);
  expectError(65, "cpu.so: its contents do not fit", [&] { loadPlan(folder.path()); });
  EXPECT_NO_THROW(loadPlan(folder.path(), {.verifyParts = false}));
  writeFile(kernels, bytes.substr(1));
  expectError(65, "bytes, the plan says", [&] { loadPlan(folder.path(), {.verifyParts = false}); });
  std::filesystem::remove(kernels);
  expectError(65, "is missing", [&] { loadPlan(folder.path()); });
}

TEST(PlanFile, WhatIsNoPlanIsSaidToBeNone) {
  TempFolder folder;
  expectError(74, "no such plan", [&] { loadPlan(folder.path() / "none"); });
  expectError(65, "has no plan.pb", [&] { loadPlan(folder.path()); });
  writeFile(folder.path() / "file", "x");
  expectError(65, "is a file", [&] { loadPlan(folder.path() / "file"); });
  expectError(74, "cannot write", [&] { savePlan(folder.path() / "no" / "folder", {}); });
}

// Plans with a right digest and wrong contents, as another version or a faulty compiler might write.
class BadPlan : public testing::Test {
protected:
  template <class Change> void expect(const std::string &part, Change &&change) {
    TempFolder folder;
    plan::Plan changed = makeTestPlan({});
    change(changed);
    savePlan(folder.path(), changed);
    expectError(65, part, [&] { loadPlan(folder.path()); });
  }
  static plan::Program &program(plan::Plan &plan) { return *plan.mutable_targets(0)->mutable_programs(0); }
};

TEST_F(BadPlan, AnotherMajorVersionIsRefused) {
  TempFolder folder;
  savePlan(folder.path(), makeTestPlan({}));
  // savePlan writes this program's version, so the file is put together by hand: field 1, the major, comes first.
  std::string bytes = readFile(folder.path() / "plan.pb");
  ASSERT_EQ(bytes.substr(0, 2), std::string({'\x08', static_cast<char>(planMajor)}));
  bytes[1] = 9;
  plan::Plan digestOf;
  writeFile(folder.path() / "body", bytes.substr(0, bytes.size() - 35));
  const std::string hex = sha256OfFile(folder.path() / "body");
  std::string digest;
  for (size_t i = 0; i < hex.size(); i += 2)
    digest.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  writeFile(folder.path() / "plan.pb", bytes.substr(0, bytes.size() - 32) + digest);
  expectError(65, "version 9." + std::to_string(planMinor) + " of the plan format", [&] { loadPlan(folder.path()); });
}

TEST_F(BadPlan, StepsAreChecked) {
  expect("kind that this program does not know", [](plan::Plan &p) { program(p).mutable_steps(0)->clear_kind(); });
  expect("index 77 is beyond", [](plan::Plan &p) { program(p).mutable_steps(0)->mutable_inputs(1)->set_index(77); });
  expect("reaches to byte", [](plan::Plan &p) { program(p).mutable_steps(0)->mutable_inputs(0)->set_offset_bytes(64); });
  expect("reaches to byte", [](plan::Plan &p) { program(p).mutable_steps(0)->mutable_outputs(0)->set_shape(0, 9); });
  expect("impossible shape", [](plan::Plan &p) {
    auto *input = program(p).mutable_steps(0)->mutable_inputs(0);
    input->set_shape(0, int64_t{1} << 62);
    input->set_shape(1, int64_t{1} << 62);
  });
  expect("does not lie within the arena", [](plan::Plan &p) { program(p).mutable_buffers(0)->set_offset(1 << 20); });
  expect("which its kind does not take", [](plan::Plan &p) { program(p).mutable_steps(0)->mutable_inputs()->RemoveLast(); });
  expect("not the stored one", [](plan::Plan &p) { program(p).mutable_steps(0)->mutable_inputs(1)->set_type(plan::BF16); });
}

TEST_F(BadPlan, WeightsThatStepsWriteAreStatistics) {
  // Adds a copy of parameter 1 onto itself to a program; it is told apart by its role and by where that is done.
  auto copy = [](plan::Plan &p, plan::Parameter::Role role, int number) {
    plan::Step &step = *p.mutable_targets(0)->mutable_programs(number)->add_steps();
    step.mutable_copy();
    for (plan::Operand *operand : {step.add_inputs(), step.add_outputs()}) {
      operand->set_kind(plan::Operand::WEIGHT);
      operand->set_index(1);
      operand->set_type(p.classes(static_cast<int>(p.parameters(1).state_class())).weight());
      operand->mutable_shape()->CopyFrom(p.parameters(1).shape());
    }
    p.mutable_parameters(1)->set_role(role);
  };
  ASSERT_EQ(makeTestPlan({}).targets(0).programs(0).name(), "micro_step");
  expect("steps do not write WEIGHT", [&](plan::Plan &p) { copy(p, plan::Parameter::BIAS, 0); });
  expect("steps do not write WEIGHT", [&](plan::Plan &p) { copy(p, plan::Parameter::MEAN, 1); });
  expect("steps do not write INPUT", [](plan::Plan &p) {
    plan::Operand &output = *program(p).mutable_steps(0)->mutable_outputs(0);
    output = program(p).steps(0).inputs(0);
    output.set_kind(plan::Operand::INPUT);
  });
  TempFolder folder;
  plan::Plan right = makeTestPlan({});
  copy(right, plan::Parameter::VARIANCE, 0);
  savePlan(folder.path(), right);
  EXPECT_EQ(loadPlan(folder.path()).plan.parameters(1).role(), plan::Parameter::VARIANCE);
}

TEST_F(BadPlan, TargetsAreChecked) {
  expect("for no target", [](plan::Plan &p) { p.clear_targets(); });
  expect("two targets are called cpu", [](plan::Plan &p) { p.add_targets()->set_name("cpu"); });
  expect("target sm_90a: has 0 launches of updates", [](plan::Plan &p) { p.add_targets()->set_name("sm_90a"); });
  expect("target sm_90a: kernel test_loss: has 0 entry points", [](plan::Plan &p) { p.mutable_targets(0)->set_name("sm_90a"); });
  expect("target cpu: program", [](plan::Plan &p) { program(p).mutable_steps(0)->clear_kind(); });
}

TEST_F(BadPlan, WindowsAreChecked) {
  // A step over x [1, 6, 2], filter [4, 3, 2], y [1, 4, 4], all in one buffer; then something about it is changed.
  auto steps = [](plan::Plan &p, auto &&change) {
    plan::Step &step = *program(p).add_steps();
    auto add = [&](plan::Operand *operand, std::initializer_list<int64_t> shape, plan::Type type = plan::F32) {
      operand->set_kind(plan::Operand::BUFFER);
      operand->set_type(type);
      for (int64_t extent : shape)
        operand->add_shape(extent);
    };
    auto fill = [](plan::Window &window) {
      window.add_size(3);
      for (auto *list : {window.mutable_strides(), window.mutable_dilations()})
        list->Add(1);
      for (auto *list : {window.mutable_low(), window.mutable_high()})
        list->Add(0);
    };
    change(step, add, fill);
  };
  auto conv = [&](const std::string &part, auto &&change) {
    expect(part, [&](plan::Plan &p) {
      steps(p, [&](plan::Step &step, auto &&add, auto &&fill) {
        fill(*step.mutable_conv()->mutable_window());
        step.mutable_conv()->set_groups(1);
        add(step.add_inputs(), {1, 6, 2});
        add(step.add_inputs(), {4, 3, 2});
        add(step.add_outputs(), {1, 4, 4});
        change(step);
      });
    });
  };
  conv("which its kind does not take", [](plan::Step &s) { s.mutable_inputs()->RemoveLast(); });
  conv("does not fit its operands", [](plan::Step &s) { s.mutable_conv()->mutable_window()->add_low(0); });
  conv("does not fit its operands", [](plan::Step &s) { s.mutable_conv()->clear_window(); });
  conv("impossible window along dimension 1", [](plan::Step &s) { s.mutable_conv()->mutable_window()->set_strides(0, 0); });
  conv("7 windows along dimension 1 of an image of 6, where 4 fit", [](plan::Step &s) { s.mutable_outputs(0)->set_shape(1, 7); });
  conv("2 windows along dimension 1 of an image of 6", [](plan::Step &s) { s.mutable_outputs(0)->set_shape(1, 2); });
  conv("does not fit its operands", [](plan::Step &s) {
    s.mutable_inputs(0)->set_shape(0, 0);
    s.mutable_outputs(0)->set_shape(0, 0);
  });
  conv("its filter does not fit 2 and 4 channels in 1 groups", [](plan::Step &s) { s.mutable_inputs(1)->set_shape(2, 3); });
  conv("in 0 groups", [](plan::Step &s) { s.mutable_conv()->set_groups(0); });
  conv("floats in row-major order", [](plan::Step &s) { s.mutable_inputs(0)->set_type(plan::I32); });
  auto pool = [&](const std::string &part, auto &&change) {
    expect(part, [&](plan::Plan &p) {
      steps(p, [&](plan::Step &step, auto &&add, auto &&fill) {
        fill(*step.mutable_max_pool()->mutable_window());
        add(step.add_inputs(), {1, 6, 2});
        add(step.add_outputs(), {1, 4, 2});
        add(step.add_outputs(), {1, 4, 2}, plan::U8);
        change(step);
      });
    });
  };
  pool("which its kind does not take", [](plan::Step &s) { s.mutable_outputs()->RemoveLast(); });
  pool("window 0 along dimension 1 lies in padding alone", [](plan::Step &s) {
    s.mutable_max_pool()->mutable_window()->set_low(0, 3);
    s.mutable_outputs(0)->set_shape(1, 7);
    s.mutable_outputs(1)->set_shape(1, 7);
  });
  pool("2 channels became 1", [](plan::Step &s) { s.mutable_outputs(0)->set_shape(2, 1); });
  pool("what it notes of its 3 taps", [](plan::Step &s) { s.mutable_outputs(1)->set_type(plan::I8); });
  pool("what it notes of its 3 taps", [](plan::Step &s) { s.mutable_outputs(1)->set_shape(1, 3); });
}

TEST_F(BadPlan, StateIsChecked) {
  expect("does not lie within its state class", [](plan::Plan &p) { p.mutable_parameters(0)->set_offset(128); });
  expect("there is no state class", [](plan::Plan &p) { p.mutable_parameters(0)->set_state_class(5); });
  expect("its buckets", [](plan::Plan &p) { p.mutable_buckets(0)->set_elements(128); });
  expect("unknown type", [](plan::Plan &p) { p.mutable_classes(0)->set_weight(static_cast<plan::Type>(99)); });
  expect("beyond all scales", [](plan::Plan &p) {
    auto *site = p.add_sites();
    site->set_format(plan::E4M3);
    site->set_margin(127);
  });
  expect("does not lie in the plan's folder", [](plan::Plan &p) { p.add_parts()->set_path("../x"); });
}

} // namespace
