// Several ranks: the same training as one rank with as many micro-batches.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/runtime/LaneDevice.h"
#include "tests/unit/runtime/Ranks.h"
#include "tests/unit/runtime/Training.h"

using namespace msamp::runtime;
using namespace msamp::test;

namespace plan = msamp::plan;

namespace {

void save(const std::filesystem::path &path, const Trained &run) {
  std::string bytes;
  auto add = [&](const auto &values) { bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(values[0])); };
  add(run.losses);
  add(run.norms);
  add(run.w);
  add(run.b);
  writeFile(path, bytes);
}
Trained load(const std::filesystem::path &path, unsigned steps) {
  Trained run;
  const std::string bytes = readFile(path);
  size_t position = 0;
  auto take = [&](auto &values, size_t count) {
    values.resize(count);
    const size_t size = count * sizeof(values[0]);
    ASSERT_LE(position + size, bytes.size());
    std::memcpy(values.data(), bytes.data() + position, size);
    position += size;
  };
  take(run.losses, steps);
  take(run.norms, steps);
  take(run.w, testRows * testColumns);
  take(run.b, testColumns);
  return run;
}

// All ranks must agree; returns what they have.
Trained onSeveral(unsigned ranks, const TestPlanOptions &options, unsigned steps, Hyper hyper = {}) {
  TempFolder folder;
  writeTestPlan(folder.path() / "plan", options);
  onRanks(ranks, [&](Communicator &comm) {
    save(folder.path() / std::to_string(comm.rank()), trainTestPlan(folder.path() / "plan", comm, steps, 1, hyper));
  });
  const Trained run = load(folder.path() / "0", steps);
  for (unsigned r = 1; r < ranks; ++r)
    EXPECT_TRUE(load(folder.path() / std::to_string(r), steps) == run) << "rank " << r << " differs";
  return run;
}

// The same on a device whose lanes run in the given order wherever nothing is waited for.
Trained onLanes(unsigned ranks, const TestPlanOptions &options, unsigned steps, LaneDevice::Order order) {
  TempFolder folder;
  writeTestPlan(folder.path() / "plan", options);
  onRanks(ranks, [&](Communicator &comm) {
    auto cpu = makeDevice({"cpu", 1});
    LaneDevice device(*cpu, order);
    LaneCommunicator lanes(comm, device);
    save(folder.path() / std::to_string(comm.rank()), trainTestPlan(folder.path() / "plan", device, lanes, steps));
  });
  return load(folder.path() / "0", steps);
}

Trained onOne(const TestPlanOptions &options, unsigned steps, Hyper hyper = {}) {
  TempFolder folder;
  writeTestPlan(folder.path(), options);
  auto comm = makeSingleCommunicator();
  return trainTestPlan(folder.path(), *comm, steps, 1, hyper);
}

constexpr unsigned steps = 12;

TEST(Ranks, TwoAreLikeOneWithTwoMicroBatches) {
  const Trained two = onSeveral(2, {"fp32"}, steps), one = onOne({"fp32", 2}, steps);
  for (unsigned s = 0; s < steps; ++s) {
    EXPECT_NEAR(two.losses[s], one.losses[s], 1e-5 * one.losses[s]);
    EXPECT_NEAR(two.norms[s], one.norms[s], 1e-5 * one.norms[s]);
  }
  for (size_t i = 0; i < one.w.size(); ++i)
    ASSERT_NEAR(two.w[i], one.w[i], 1e-5);
}

TEST(Ranks, ZeroOneIsZeroZeroBitForBit) {
  for (const char *level : {"fp32", "bf16", "o1", "o2", "o3"})
    for (unsigned ranks : {2u, 3u}) {
      const Trained replicated = onSeveral(ranks, {level, 1, 0}, steps), sharded = onSeveral(ranks, {level, 1, 1}, steps);
      EXPECT_TRUE(replicated == sharded) << level << " on " << ranks;
    }
}

TEST(Ranks, RunsGiveTheSameBits) {
  for (const char *level : {"fp32", "o2", "o3"})
    EXPECT_TRUE(onSeveral(2, {level}, steps) == onSeveral(2, {level}, steps)) << level;
}

// Exchanges and the next inputs run beside the backward: what needs them waits, whichever lane gets ahead.
TEST(Ranks, ExchangesAndInputsBesideTheBackwardGiveTheSameBits) {
  for (const TestPlanOptions &options : {TestPlanOptions{"fp32"}, TestPlanOptions{"o2"}, TestPlanOptions{"o3", 1, 1},
           TestPlanOptions{"o2", 2}, TestPlanOptions{"o2", 1, 0, plan::E4M3}, TestPlanOptions{"bf16", 1, 1, plan::E5M2}}) {
    const Trained inOrder = onSeveral(2, options, steps);
    for (auto order : {LaneDevice::Order{Lane::Compute, Lane::Transfer, Lane::Reduce, Lane::Input},
                       LaneDevice::Order{Lane::Input, Lane::Transfer, Lane::Reduce, Lane::Compute},
                       LaneDevice::Order{Lane::Reduce, Lane::Compute, Lane::Input, Lane::Transfer}})
      EXPECT_TRUE(onLanes(2, options, steps, order) == inOrder) << options.level << ", zero " << options.zero;
  }
}

TEST(Ranks, Fp8OnTheWireStaysClose) {
  const Hyper hyper{.lr = 0.01};
  const Trained one = onOne({"fp32", 2}, steps, hyper);
  for (const TestPlanOptions &options : {TestPlanOptions{"o1"}, TestPlanOptions{"o2"}, TestPlanOptions{"o3"}, TestPlanOptions{"bf16"},
           TestPlanOptions{"fp32", 1, 0, plan::E4M3}, TestPlanOptions{"fp32", 1, 1, plan::BF16}}) {
    const Trained two = onSeveral(2, options, steps, hyper);
    for (unsigned s = 0; s < steps; ++s)
      EXPECT_NEAR(two.losses[s], one.losses[s], 0.05 * one.losses[s]) << options.level << " step " << s;
  }
}

TEST(Ranks, AccumulationExchangesOnceAStep) {
  const Trained two = onSeveral(2, {"fp32", 2, 1}, steps), one = onOne({"fp32", 4}, steps);
  for (unsigned s = 0; s < steps; ++s)
    EXPECT_NEAR(two.losses[s], one.losses[s], 1e-5 * one.losses[s]);
  const Trained narrow = onSeveral(2, {"o2", 2, 0, plan::E4M3}, steps);
  for (unsigned s = 0; s < steps; ++s)
    EXPECT_NEAR(narrow.losses[s], one.losses[s], 0.05 * one.losses[s]);
}

TEST(Ranks, ANonFiniteGradientOfOneSkipsTheStepOnAll) {
  TempFolder folder;
  writeTestPlan(folder.path() / "plan", {"o2"});
  onRanks(2, [&](Communicator &comm) {
    auto device = makeDevice({"cpu", 1});
    auto executor = Executor::create(loadPlan(folder.path() / "plan"), *device, comm);
    executor->initialize(1);
    std::vector<float> before, after;
    executor->readParameter("w", before);
    const std::vector<float> x = sample(comm.rank());
    std::memcpy(executor->inputHost(0), x.data(), executor->inputBytes(0));
    if (comm.rank() == 1)
      static_cast<float *>(executor->inputHost(0))[0] = NAN;
    executor->microStep(0, 1);
    require(executor->update({}).skipped, "skipped");
    executor->readParameter("w", after);
    require(before == after, "parameters unchanged");
  });
}

TEST(Ranks, ZeroOneSharesMastersAndMoments) {
  TempFolder folder;
  writeTestPlan(folder.path() / "plan", {"o3", 1, 1});
  onRanks(2, [&](Communicator &comm) {
    auto device = makeDevice({"cpu", 1});
    auto executor = Executor::create(loadPlan(folder.path() / "plan"), *device, comm);
    const RoleBytes bytes = executor->memory();
    // 15 blocks: 8 on rank 0 and 7 on rank 1; the vector's one block is on rank 0.
    const uint64_t own = comm.rank() == 0 ? 8 * 128 : 7 * 128, vector = comm.rank() == 0 ? testColumns : 0;
    require(bytes[static_cast<size_t>(Role::Master)] == 2 * own, "masters");
    require(bytes[static_cast<size_t>(Role::Moments)] == 3 * own + 8 * vector, "moments");
    require(bytes[static_cast<size_t>(Role::Weights)] == testRows * testColumns + 4 * testColumns, "weights");
  });
}

} // namespace
