// The executor's insides, shared by its translation units.
#ifndef MSAMP_RUNTIME_EXEC_EXECUTORIMPL_H
#define MSAMP_RUNTIME_EXEC_EXECUTORIMPL_H

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/MappedFile.h"
#include "runtime/exec/Executor.h"
#include "runtime/exec/State.h"

namespace msamp::runtime {

// A step with the addresses of its operands.
struct BoundStep {
  const plan::Step *step = nullptr;
  std::vector<Tensor> inputs, outputs;
  std::vector<void *> args; // of a kernel: inputs, outputs, workspace
  std::vector<const float *> scalars; // inputs of calibrate, record_amax, store_grad_scale
  std::vector<uint32_t> entries;      // of the tables, one a scalar
};

struct BoundProgram {
  const plan::Program *program = nullptr;
  std::byte *outputs = nullptr; // area of the program's outputs
  size_t outputBytes = 0;
  std::vector<BoundStep> steps;
  std::array<std::vector<const BoundStep *>, 2> due; // of a turn; [1]: of one before the sites have a history
};

class ExecutorImpl final : public Executor {
public:
  ExecutorImpl(LoadedPlan plan, Device &device, Communicator &communicator);
  ~ExecutorImpl() override;

  const LoadedPlan &plan() const override { return loaded_; }
  Device &device() override { return device_; }
  Communicator &communicator() override { return comm_; }

  void initialize(uint64_t seed) override;
  void *inputHost(unsigned input) override;
  size_t inputBytes(unsigned input) const override;
  void sendInputs() override;
  void microStep(unsigned index, unsigned count) override;
  float lastLoss() const override;
  using Executor::update;
  StepResult update(const Hyper &hyper, const std::function<void()> &meanwhile) override;
  bool calibrateOnly() override;
  void eval() override;
  std::vector<float> output(const std::string &name) const override;
  void readParameter(const std::string &name, std::vector<float> &out) override;
  void readGradient(const std::string &name, std::vector<float> &out) override;
  ScaleHealth scaleHealth() const override { return health_; }
  uint64_t appliedSteps() const override { return applied_; }
  RoleBytes memory() const override;
  const void *address(const std::string &program, const plan::Operand &operand) const override;
  void setProfiling(bool on) override;
  std::vector<StepTime> takeProfile() override;

private:
  // Where in its step the running program is.
  struct Turn {
    bool firstMicroBatch = true, lastMicroBatch = true;
  };

  // Executor.cpp
  BoundProgram &bound(const std::string &name);
  void run(BoundProgram &program, Turn turn, LossUse use = LossUse::Only);
  void runStep(const BoundStep &step, Turn turn);
  bool exchanges(const plan::Step &step, Turn turn) const;
  void noteTimes(const BoundProgram &program, std::span<const BoundStep *const> steps, Turn turn,
      std::chrono::steady_clock::time_point begin);
  void noteLoss(const BoundProgram &program, LossUse use);
  void takeInputs();
  StepState readState() const;
  StepState endOfStep();
  // Binding.cpp
  void allocate();
  void loadKernels();
  size_t rankScaleBytes() const { return rankScales_ ? size_t{comm_.size()} * state_.tables.parameters * sizeof(float) : 0; }
  void bind(BoundProgram &program);
  std::byte *addressOf(const BoundProgram &program, const plan::Operand &operand) const;
  Tensor tensorOf(const BoundProgram &program, const plan::Operand &operand) const;
  // Initialize.cpp
  struct FirstScales {
    std::vector<float> weight, weightAmax, master; // by parameter
  };
  void setParameter(unsigned index, const std::vector<float> &values, FirstScales &scales);
  // Exchange.cpp
  void exchange(unsigned bucket, unsigned zero);
  void toLane(Lane lane); // which waits for all that the present one was asked for
  void joinExchange();
  void collective(const std::function<void()> &calls);
  void gatherWeights(unsigned stateClass);
  // Optimizer.cpp
  void gradNorm();
  void updateClass(unsigned stateClass, const std::string &optimizer);
  void pushSites();
  // Read.cpp
  struct Source {
    unsigned parameter;
    bool transposed;
  };
  Source sourceOf(const std::string &name) const;
  unsigned bucketOf(unsigned parameter) const;
  struct StoredValues; // of a parameter, as an array of its class holds them
  void readBlocks(unsigned parameter, bool sharded, const StoredValues &stored, std::vector<float> &out);
  void gatherHost(std::vector<float> &values, const std::vector<size_t> &offsets, const std::vector<size_t> &bytes);
  float tableEntry(const float *table, unsigned index) const;
  void transposeIfTwin(const Source &source, std::vector<float> &values) const;

  LoadedPlan loaded_;
  const plan::Plan &plan_;
  const plan::Target &target_;
  Device &device_;
  Communicator &comm_;
  State state_;
  MappedFile constants_;
  std::byte *constantData_ = nullptr; // of the device
  std::byte *arena_ = nullptr;
  size_t arenaBytes_ = 0, arenaWorkspace_ = 0;
  std::byte *inputs_ = nullptr;
  std::byte *inputStage_ = nullptr; // the same in host memory; the same memory where the device's is the host's
  std::byte *inputsLanding_ = nullptr; // where the next ones arrive, beside those in use; null where inputs are in host memory
  bool inputsSent_ = false;            // the next ones
  size_t inputArenaBytes_ = 0;
  size_t inputAreas_ = 1, inputArea_ = 0; // of inputStage_, taken in turn
  std::vector<size_t> inputOffsets_, inputSizes_;
  std::map<std::string, BoundProgram> programs_;
  std::vector<unsigned> updateKernels_; // by state class
  std::byte *exchangeBuffer_ = nullptr;  // what other ranks send
  float *rankScales_ = nullptr;          // [rank][parameter]: scales of the gradients to be exchanged
  size_t exchangeBytes_ = 0;
  std::optional<Moment> exchanged_;      // when the exchanges asked for are done, until someone has waited for it
  unsigned laneMark_ = 0;                // the next mark of an exchange

  // What the host saw at the end of the last step.
  bool sitesHaveHistory_ = false;
  uint64_t applied_ = 0;
  ScaleHealth health_;

  bool profiling_ = false;
  std::chrono::steady_clock::time_point profileBegin_;
  std::vector<StepTime> profile_;
};

} // namespace msamp::runtime

#endif
