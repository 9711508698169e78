// Update kernels for the storage of each level: the CPU's against the optimizers' formulas in double precision, and a
// GPU's, its threads emulated, against the CPU's.
#include "codegen/cpu/UpdateKernel.h"
#include "codegen/cuda/CudaKernels.h"
#include "codegen/cuda/UpdateKernel.h"
#include "runtime/device/StepRules.h"
#include "tests/unit/codegen/Emulator.h"
#include "tests/unit/codegen/Library.h"
#include "tests/unit/runtime/UpdateReference.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace msamp::test {
namespace {

using partition::ClassStorage;
using partition::Storage;

Stored stored(Storage s) {
  switch (s) {
  case Storage::F32:
    return Stored::F32;
  case Storage::BF16:
    return Stored::BF16;
  case Storage::F16:
    return Stored::F16;
  case Storage::E4M3:
    return Stored::E4M3;
  default:
    return Stored::None;
  }
}

constexpr int64_t blocks = 6, values = blocks * partition::kBlock;

// Arrays of one class with plausible contents; scales vary from parameter to parameter, which have `blocksEach` blocks.
struct State {
  std::map<int, std::vector<char>> memory;
  std::vector<void *> args = std::vector<void *>(codegen::UpdateArgumentCount, nullptr);

  State(const ClassStorage &c, uint32_t seed, bool skip, int64_t blocks = test::blocks, int64_t blocksEach = 1) {
    const int64_t values = blocks * partition::kBlock;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    auto array = [&](int which, Stored type, auto value) {
      if (type == Stored::None)
        return;
      memory[which].resize(values * 4);
      for (int64_t i = 0; i < values; ++i)
        save(type, memory[which].data(), i, value(i));
    };
    auto scales = [&](int which, bool present, float base) {
      if (!present)
        return;
      memory[which].resize(blocks * 4);
      for (int64_t b = 0; b < blocks; ++b)
        reinterpret_cast<float *>(memory[which].data())[b] = std::ldexp(base, static_cast<int>(b / blocksEach % 3));
    };
    auto narrow = [](Storage s) { return s == Storage::F16 || s == Storage::E4M3; };
    // Powers of two that bring weights of about 0.02 into the middle of the formats' ranges.
    scales(codegen::GradScale, true, c.grad == Storage::E4M3 ? 4096.f : 1.f);
    scales(codegen::MScale, narrow(c.m), 8192.f);
    scales(codegen::VScale, narrow(c.v), 1048576.f);
    scales(codegen::OldWeightScale, true, c.weightScaled ? 1024.f : 1.f);
    scales(codegen::NewWeightScale, true, c.weightScaled ? 512.f : 1.f);
    scales(codegen::OldMasterScale, true, c.masterScaled ? 4096.f : 1.f);
    scales(codegen::NewMasterScale, true, c.masterScaled ? 8192.f : 1.f);
    auto scale = [&](int which, int64_t i) {
      return reinterpret_cast<float *>(memory[which].data())[i / partition::kBlock];
    };
    bool unscaledGrad = c.grad != Storage::E4M3;
    if (unscaledGrad)
      for (int64_t b = 0; b < blocks; ++b)
        reinterpret_cast<float *>(memory[codegen::GradScale].data())[b] = 1;
    if (!c.weightScaled)
      for (int64_t b = 0; b < blocks; ++b)
        for (int w : {codegen::OldWeightScale, codegen::NewWeightScale})
          reinterpret_cast<float *>(memory[w].data())[b] = 1;
    if (!c.masterScaled)
      for (int64_t b = 0; b < blocks; ++b)
        for (int w : {codegen::OldMasterScale, codegen::NewMasterScale})
          reinterpret_cast<float *>(memory[w].data())[b] = 1;
    array(codegen::Weight, stored(c.weight),
          [&](int64_t i) { return 0.02f * normal(random) * scale(codegen::OldWeightScale, i); });
    array(codegen::Master, stored(c.master),
          [&](int64_t i) { return 0.02f * normal(random) * scale(codegen::OldMasterScale, i); });
    array(codegen::Grad, stored(c.grad),
          [&](int64_t i) { return 0.01f * normal(random) * scale(codegen::GradScale, i); });
    array(codegen::M, stored(c.m),
          [&](int64_t i) { return 0.003f * normal(random) * (narrow(c.m) ? scale(codegen::MScale, i) : 1); });
    array(codegen::V, stored(c.v), [&](int64_t i) {
      float x = 0.01f * normal(random);
      return x * x * (narrow(c.v) ? scale(codegen::VScale, i) : 1);
    });
    memory[codegen::BlockAmax].assign(static_cast<size_t>(blocks) * 4, 0);
    float hyper[runtime::HyperSlots] = {};
    // No sum of two FP8 values times these is halfway between two others, where the last bit of a factor would decide.
    runtime::fillKernelHyper(hyper, {.lr = 1e-3, .beta1 = 0.91}, 0.47, 2, skip);
    memory[codegen::Hyper].assign(reinterpret_cast<char *>(hyper), reinterpret_cast<char *>(hyper + std::size(hyper)));
    for (auto &[which, bytes] : memory)
      args[which] = bytes.data();
  }
};

// The kernels and the runtime that fills their table name the same places.
#define MSAMP_SAME(HYPER, SLOT) static_assert(int{codegen::HYPER} == int{runtime::SLOT})
MSAMP_SAME(LearningRate, SlotLr);
MSAMP_SAME(Beta1, SlotBeta1);
MSAMP_SAME(Beta2, SlotBeta2);
MSAMP_SAME(Epsilon, SlotEps);
MSAMP_SAME(WeightDecay, SlotWeightDecay);
MSAMP_SAME(GradFactor, SlotGradFactor);
MSAMP_SAME(BiasM, SlotBiasM);
MSAMP_SAME(BiasV, SlotBiasV);
MSAMP_SAME(Skip, SlotSkip);
MSAMP_SAME(Rest1, SlotRest1);
MSAMP_SAME(RootRest2, SlotRootRest2);
MSAMP_SAME(RootFactor, SlotRootFactor);
MSAMP_SAME(EpsilonFactor, SlotEpsFactor);
static_assert(int{codegen::UpdateHyperCount} <= int{runtime::HyperSlots});

class UpdateKernel : public ::testing::TestWithParam<std::tuple<const char *, const char *>> {};

TEST_P(UpdateKernel, FollowsTheFormulas) {
  auto [level, name] = GetParam();
  ClassStorage c = partition::storageOf(level, name, "adamw", 1);
  mlir::MLIRContext context;
  codegen::CpuKernels kernels(&context);
  ASSERT_TRUE(succeeded(kernels.addUpdate("update", c, "adamw")));
  Library library(kernels);
  State actual(c, 3, false), expected(c, 3, false);
  library.kernel("update")(actual.args.data(), 0, 2);
  library.kernel("update")(actual.args.data(), 2, blocks);
  UpdateReference{stored(c.weight), stored(c.master), stored(c.grad), stored(c.m), stored(c.v), false}.run(
      expected.args.data(), 0, blocks);
  auto compare = [&](int which, Storage type, double tolerance) {
    if (type == Storage::None)
      return;
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < values; ++i) {
      double a = load(stored(type), actual.args[which], i), e = load(stored(type), expected.args[which], i);
      difference += (a - e) * (a - e), norm += e * e;
    }
    EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm)) << "array " << which;
  };
  // A value next to a tie of its storage type may round the other way, by a unit of at most 2^-3 (E4M3), 2^-7 (BF16),
  // 2^-10 (F16) of it. Two of the 768 values may: sqrt(2 / 768) units.
  auto bound = [](Storage s) {
    double unit = s == Storage::E4M3 ? 0x1p-3 : s == Storage::BF16 ? 0x1p-7 : s == Storage::F16 ? 0x1p-10 : 0;
    return 1e-6 + std::sqrt(2.0 / values) * unit;
  };
  compare(codegen::Weight, c.weight, bound(c.weight));
  compare(codegen::Master, c.master, bound(c.master));
  compare(codegen::M, c.m, bound(c.m));
  compare(codegen::V, c.v, bound(c.v));
  for (int which : {codegen::MScale, codegen::VScale, codegen::BlockAmax})
    if (expected.args[which]) {
      for (int64_t b = 0; b < blocks; ++b)
        EXPECT_NEAR(static_cast<float *>(actual.args[which])[b] / static_cast<float *>(expected.args[which])[b], 1,
                    1e-5)
            << "array " << which;
    }
}

// Without gradients and moments a weight only decays: by a product of its own, rounded with the weight. 1 - 1e-7 as a factor
// would be a fifth too far from 1.
TEST(UpdateKernels, SmallDecayIsNotLost) {
  ClassStorage c = partition::storageOf("fp32", "plain", "adamw", 1);
  mlir::MLIRContext context;
  codegen::CpuKernels kernels(&context);
  ASSERT_TRUE(succeeded(kernels.addUpdate("update", c, "adamw")));
  Library library(kernels);
  State state(c, 3, false);
  for (int which : {codegen::Grad, codegen::M, codegen::V})
    std::fill(state.memory[which].begin(), state.memory[which].end(), 0);
  runtime::fillKernelHyper(reinterpret_cast<float *>(state.memory[codegen::Hyper].data()),
                           {.lr = 1e-5, .weightDecay = 0.01}, 1, 1, false);
  const State before = state;
  library.kernel("update")(state.args.data(), 0, blocks);
  int64_t different = 0;
  for (int64_t i = 0; i < values; ++i) {
    const double x = load(Stored::F32, before.memory.at(codegen::Weight).data(), i);
    different += load(Stored::F32, state.args[codegen::Weight], i) != static_cast<float>(x - 1e-5 * (0.01 * x));
  }
  EXPECT_LE(different, 2); // next to a tie
}

TEST_P(UpdateKernel, WritesNothingWhenTheStepIsSkipped) {
  auto [level, name] = GetParam();
  ClassStorage c = partition::storageOf(level, name, "adamw", 1);
  mlir::MLIRContext context;
  codegen::CpuKernels kernels(&context);
  ASSERT_TRUE(succeeded(kernels.addUpdate("update", c, "adamw")));
  Library library(kernels);
  State actual(c, 3, true), before(c, 3, true);
  library.kernel("update")(actual.args.data(), 0, blocks);
  EXPECT_EQ(actual.memory, before.memory);
}

// The same bits from both: with parameters that begin within a warp's blocks, threads behind the last block, and
// gradients' scales of each kind.
TEST_P(UpdateKernel, ComputesOnAGpuWhatItDoesOnTheCpu) {
  auto [level, name] = GetParam();
  constexpr int64_t blocks = 117, blocksEach = 5, parameters = (blocks + blocksEach - 1) / blocksEach;
  ClassStorage c = partition::storageOf(level, name, "adamw", 1);
  mlir::MLIRContext context;
  codegen::CpuKernels onCpu(&context);
  ASSERT_TRUE(succeeded(onCpu.addUpdate("update", c, "adamw")));
  Library library(onCpu);
  codegen::cuda::CudaKernels onGpu(&context, *codegen::cuda::Target::parse("sm_90a"));
  codegen::cuda::KernelEntry entry;
  int64_t blocksPerCta = 0;
  ASSERT_TRUE(succeeded(onGpu.addUpdate("update", c, "adamw", entry, blocksPerCta)));
  Emulator emulator(onGpu.kernels());

  using GpuArgument = codegen::cuda::UpdateArgument;
  const std::pair<int, GpuArgument> shared[] = {
      {codegen::Weight, GpuArgument::Weight}, {codegen::Master, GpuArgument::Master},
      {codegen::Grad, GpuArgument::Grad},     {codegen::M, GpuArgument::M},
      {codegen::MScale, GpuArgument::MScale}, {codegen::V, GpuArgument::V},
      {codegen::VScale, GpuArgument::VScale}, {codegen::Hyper, GpuArgument::Hyper}};
  const std::pair<int, GpuArgument> ofParameters[] = {
      {codegen::GradScale, GpuArgument::GradScale},
      {codegen::OldWeightScale, GpuArgument::OldWeightScale},
      {codegen::NewWeightScale, GpuArgument::NewWeightScale},
      {codegen::OldMasterScale, GpuArgument::OldMasterScale},
      {codegen::NewMasterScale, GpuArgument::NewMasterScale}};
  for (bool skip : {false, true})
    for (bool gradPerBlock : {false, true}) {
      State expected(c, 3, skip, blocks, blocksEach), actual(c, 3, skip, blocks, blocksEach);
      library.kernel("update")(expected.args.data(), 0, blocks);
      std::vector<void *> args(codegen::cuda::UpdateArgumentCount);
      for (auto [from, to] : shared)
        args[to] = actual.args[from];
      std::map<int, std::vector<float>> tables;
      for (auto [from, to] : ofParameters) {
        for (int64_t p = 0; p < parameters; ++p)
          tables[to].push_back(static_cast<float *>(actual.args[from])[p * blocksEach]);
        args[to] = tables[to].data();
      }
      if (gradPerBlock)
        args[GpuArgument::GradBlockScale] = actual.args[codegen::GradScale];
      std::vector<int32_t> owner;
      for (int64_t b = 0; b < blocks; ++b)
        owner.push_back(static_cast<int32_t>(b / blocksEach));
      std::vector<float> amax(parameters, 0), expectedAmax(parameters, 0);
      int64_t count = blocks;
      args[GpuArgument::Owner] = owner.data(), args[GpuArgument::Amax] = amax.data();
      args[GpuArgument::Blocks] = &count;
      entry.gridX = (blocks + blocksPerCta - 1) / blocksPerCta;
      emulator.launch(entry, args);
      for (int64_t b = 0; b < blocks && !skip; ++b) {
        float &most = expectedAmax[static_cast<size_t>(b / blocksEach)];
        most = std::max(most, static_cast<float *>(expected.args[codegen::BlockAmax])[b]);
      }
      EXPECT_EQ(amax, expectedAmax);
      for (auto [array, argument] : shared)
        EXPECT_EQ(actual.memory[array], expected.memory[array]) << "array " << array;
    }
}

INSTANTIATE_TEST_SUITE_P(Levels, UpdateKernel,
                         ::testing::Values(std::tuple("fp32", "plain"), std::tuple("bf16", "plain"),
                                           std::tuple("O1", "scaled"), std::tuple("O2", "plain"),
                                           std::tuple("O2", "scaled"), std::tuple("O3", "scaled")),
                         [](auto &info) {
                           return std::string(std::get<0>(info.param)) + "_" + std::get<1>(info.param);
                         });

} // namespace
} // namespace msamp::test
