// The executor's insides, shared by its translation units.
#ifndef MSAMP_RUNTIME_EXEC_EXECUTORIMPL_H
#define MSAMP_RUNTIME_EXEC_EXECUTORIMPL_H

#include <map>
#include <memory>
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
};

struct BoundProgram {
  const plan::Program *program = nullptr;
  std::byte *outputs = nullptr; // area of the program's outputs
  size_t outputBytes = 0;
  std::vector<BoundStep> steps;
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
  void microStep(unsigned index, unsigned count) override;
  float lastLoss() const override { return lastLoss_; }
  StepResult update(const Hyper &hyper) override;
  bool calibrateOnly() override;
  void eval() override;
  std::vector<float> output(const std::string &name) const override;
  void readParameter(const std::string &name, std::vector<float> &out) override;
  void readGradient(const std::string &name, std::vector<float> &out) override;
  ScaleHealth scaleHealth() const override { return health_; }
  uint64_t appliedSteps() const override { return applied_; }
  RoleBytes memory() const override;
  const void *address(const std::string &program, const plan::Operand &operand) const override;

private:
  // What steps of the running program need to know.
  struct Control {
    bool firstMicroBatch = true, lastMicroBatch = true;
    const Hyper *hyper = nullptr;
    StepResult result;
    bool sitesChanged = false;
  };

  // Executor.cpp
  BoundProgram &bound(const std::string &name);
  void run(BoundProgram &program, Control &control);
  void runStep(const BoundStep &step, Control &control);
  void noteLoss(const BoundProgram &program);
  // Binding.cpp
  void allocate();
  void bind(BoundProgram &program);
  std::byte *addressOf(const BoundProgram &program, const plan::Operand &operand) const;
  Tensor tensorOf(const BoundProgram &program, const plan::Operand &operand) const;
  // Initialize.cpp
  void setParameter(unsigned index, const std::vector<float> &values);
  // Exchange.cpp
  void exchange(unsigned bucket, unsigned zero);
  void gatherWeights(unsigned stateClass);
  // Optimizer.cpp
  void gradNorm(Control &control);
  void updateClass(unsigned stateClass, const std::string &optimizer, Control &control);
  void calibrate(const BoundStep &step);
  void recordAmax(const BoundStep &step);
  void updateSites(Control &control);
  // Read.cpp
  struct Source {
    unsigned parameter;
    bool transposed;
  };
  Source sourceOf(const std::string &name) const;
  unsigned bucketOf(unsigned parameter) const;
  template <class Decode> void readBlocks(unsigned parameter, bool sharded, std::vector<float> &out, Decode &&decode);
  void transposeIfTwin(const Source &source, std::vector<float> &values) const;

  LoadedPlan loaded_;
  const plan::Plan &plan_;
  Device &device_;
  Communicator &comm_;
  State state_;
  MappedFile constants_;
  std::byte *arena_ = nullptr;
  size_t arenaBytes_ = 0, arenaWorkspace_ = 0;
  std::byte *inputs_ = nullptr;
  size_t inputArenaBytes_ = 0;
  std::vector<size_t> inputOffsets_, inputSizes_;
  std::map<std::string, BoundProgram> programs_;
  std::vector<unsigned> updateKernels_; // by state class
  std::byte *exchangeBuffer_ = nullptr;  // what other ranks send
  size_t exchangeBytes_ = 0;

  float lastLoss_ = 0;
  double lossSum_ = 0;
  unsigned lossCount_ = 0;
  bool sitesHaveHistory_ = false;
  uint64_t siteSteps_ = 0;     // pushes into the histories
  uint64_t applied_ = 0;
  double momentumBound_ = 0;   // of SGD: largest magnitude that a momentum can have
  ScaleHealth health_;
};

} // namespace msamp::runtime

#endif
