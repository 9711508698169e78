// Executes a compiled training plan: owns its state on one rank and runs its programs step by step.
#ifndef MSAMP_RUNTIME_EXEC_EXECUTOR_H
#define MSAMP_RUNTIME_EXEC_EXECUTOR_H

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/comm/Communicator.h"
#include "runtime/core/Types.h"
#include "runtime/device/Device.h"
#include "runtime/plan/PlanIO.h"

namespace msamp::runtime {

struct StepResult {
  double loss = 0;       // mean over all micro-batches of all ranks since the last update
  double gradNorm = 0;   // of the mean gradient, before clipping
  double clipFactor = 1;
  bool skipped = false;  // a gradient was not finite: nothing was updated, on any rank
};

// How well the FP8 scales fit.
struct ScaleHealth {
  unsigned sites = 0;
  unsigned saturated = 0;  // sites whose last amax was beyond what their scale could represent
  unsigned nonFinite = 0;  // sites whose last amax was not finite
  unsigned unused = 0;     // sites whose last amax was 0
  uint64_t skippedSteps = 0;
};

// When a step of the plan ran on the device, in seconds.
struct StepTime {
  const plan::Program *program;
  const plan::Step *step;
  double begin, end;
  bool beside = false; // other steps went on meanwhile
};

// Unless said otherwise a call is local to the rank. Calls marked [collective] communicate when there are several ranks:
// all ranks must make them in the same order.
class Executor {
public:
  // Checks that the plan fits this world, allocates all arenas and loads the kernels. The plan is copied; device and
  // communicator must outlive the executor. Not initialised: call initialize.
  static std::unique_ptr<Executor> create(LoadedPlan plan, Device &device, Communicator &communicator);
  virtual ~Executor() = default;

  virtual const LoadedPlan &plan() const = 0;
  virtual Device &device() = 0;
  virtual Communicator &communicator() = 0;

  // Parameters from weights/weights.safetensors, or drawn from (seed, ONNX name); moments 0; scales and amax of the
  // weights; no amax history; step count 0.
  virtual void initialize(uint64_t seed) = 0;

  // Host buffer of an input, to be filled before the next microStep or eval. Another one may be next after each of them, which may
  // be filled at once, before update or while it runs.
  virtual void *inputHost(unsigned input) = 0;
  virtual size_t inputBytes(unsigned input) const = 0;
  // All inputs are filled: they go to the device beside what it is at, and are what the next microStep or eval reads. Those see
  // to it where nobody has.
  virtual void sendInputs() = 0;

  // [collective] Forward and backward of micro-batch `index` of `count` that this rank has in the step (count =
  // Plan.accumulate): gradients go into the gradient space, from index 0 on afresh. The last one exchanges.
  virtual void microStep(unsigned index, unsigned count) = 0;
  // Loss of the last microStep or eval on this rank.
  virtual float lastLoss() const = 0;
  // [collective] Exchange (if the plan accumulates), norm, clipping, optimizer, scales, amax histories. `meanwhile` is for the host
  // while a device is at it: the next inputs.
  virtual StepResult update(const Hyper &hyper, const std::function<void()> &meanwhile) = 0;
  StepResult update(const Hyper &hyper) { return update(hyper, [] {}); }

  // [collective] Instead of update: exchanges gradients as update would, and moves the amax histories on, without touching
  // parameters. Returns true if a delayed scale changed. For checking gradients once scales are stable.
  virtual bool calibrateOnly() = 0;

  // Runs the eval program on the inputs: loss and outputs, no gradients.
  virtual void eval() = 0;
  // Output of the last eval as FP32, with its shape from the plan's program "eval". Error 70 if there is no such output.
  virtual std::vector<float> output(const std::string &name) const = 0;

  // [collective with ZeRO 1] Value of a parameter in its ONNX shape: the master's where there is one. Twins have their own name
  // and layout.
  virtual void readParameter(const std::string &name, std::vector<float> &out) = 0;
  // [collective with ZeRO 1] Gradient as stored, dequantised: the sum over this step's micro-batches, over all ranks after
  // the exchange (divide by ranks * accumulate for the mean). Error 70 if the parameter is not trained.
  virtual void readGradient(const std::string &name, std::vector<float> &out) = 0;

  virtual ScaleHealth scaleHealth() const = 0;
  virtual uint64_t appliedSteps() const = 0;

  // Bytes of the arenas as allocated on this rank, by role.
  virtual RoleBytes memory() const = 0;

  // Address of an operand of a program, for tests that look at what a GEMM really reads.
  virtual const void *address(const std::string &program, const plan::Operand &operand) const = 0;

  // While on, each run of a program notes when its steps began and ended, and waits for its end.
  virtual void setProfiling(bool on) = 0;
  // What was noted since it was turned on or last taken, in order; that moment is 0. The steps belong to the executor's plan.
  virtual std::vector<StepTime> takeProfile() = 0;
};

} // namespace msamp::runtime

#endif
