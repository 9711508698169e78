// Runs hand-made plans and keeps what happened.
#ifndef MSAMP_TESTS_TRAINING_H
#define MSAMP_TESTS_TRAINING_H

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/exec/Executor.h"
#include "tests/unit/runtime/TempFolder.h"
#include "tests/unit/runtime/TestPlan.h"

namespace msamp::test {

// Sample `index` of the data set: the same whoever asks.
inline std::vector<float> sample(unsigned index) {
  std::mt19937 random(1000 + index);
  std::normal_distribution<float> normal;
  std::vector<float> x(testBatch * testRows);
  for (float &value : x)
    value = normal(random);
  return x;
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<float> w, b;
  runtime::RoleBytes memory{};
  bool operator==(const Trained &other) const {
    return losses == other.losses && norms == other.norms && w == other.w && b == other.b;
  }
};

// `steps` steps; micro-batch k of a step goes to rank k mod R.
inline Trained trainTestPlan(const std::filesystem::path &folder, runtime::Device &device, runtime::Communicator &comm,
    unsigned steps, runtime::Hyper hyper = {}) {
  auto executor = runtime::Executor::create(runtime::loadPlan(folder), device, comm);
  executor->initialize(3);
  const unsigned perRank = executor->plan().plan.accumulate();
  Trained run;
  auto fill = [&](unsigned microBatch) {
    const std::vector<float> x = sample(microBatch * comm.size() + comm.rank());
    std::memcpy(executor->inputHost(0), x.data(), executor->inputBytes(0));
    executor->sendInputs();
  };
  fill(0);
  for (unsigned step = 0; step < steps; ++step) {
    for (unsigned i = 0; i < perRank; ++i) {
      executor->microStep(i, perRank);
      fill(step * perRank + i + 1);
    }
    const runtime::StepResult result = executor->update(hyper);
    run.losses.push_back(result.loss);
    run.norms.push_back(result.gradNorm);
  }
  executor->readParameter("w", run.w);
  executor->readParameter("b", run.b);
  run.memory = executor->memory();
  return run;
}

inline Trained trainTestPlan(const std::filesystem::path &folder, runtime::Communicator &comm, unsigned steps, unsigned threads = 1,
    runtime::Hyper hyper = {}) {
  auto device = runtime::makeDevice({"cpu", threads});
  return trainTestPlan(folder, *device, comm, steps, hyper);
}

} // namespace msamp::test

#endif
