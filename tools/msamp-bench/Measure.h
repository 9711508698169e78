// The measured run: whole steps by the wall clock, and the steps of the plan by the device's.
#ifndef MSAMP_TOOLS_MSAMP_BENCH_MEASURE_H
#define MSAMP_TOOLS_MSAMP_BENCH_MEASURE_H

#include "runtime/data/Loader.h"
#include "runtime/exec/Executor.h"
#include "runtime/plan/StepTraits.h"
#include "tools/msamp-bench/Options.h"

#include <vector>

namespace msamp::bench {

struct Memory {
  uint64_t peak = 0, predicted = 0, libraries = 0, context = 0; // on the rank that has most
};

// Steps of the plan that do the same work.
struct KernelTime {
  std::string shape; // see runtime::shapeOf
  std::string what;  // ops of a kernel, nodes of anything else
  runtime::StepKind kind;
  runtime::Type operands; // of a product
  bool beside = false;    // others go on meanwhile
  unsigned count = 0;     // in a training step
  double seconds = 0;     // of all of them
  uint64_t bytes = 0, flops = 0; // of one
};

struct Measurement {
  std::vector<double> seconds; // of the measured steps
  std::vector<double> losses;  // of all, warm-up included
  double gradNorm = 0;
  uint64_t skipped = 0;
  uint64_t tokens = 0; // of a step, over all ranks; samples, of a plan that reads no tokens
  const char *unit = "tokens";
  double flops = 0;    // of the model, likewise
  Memory memory;
  std::vector<KernelTime> kernels; // of this rank

  double median() const;
};

// Resident memory of this process in bytes, before the plan is loaded: what a device in host memory is measured against.
uint64_t residentBytes();

// Collective.
Measurement measure(runtime::Executor &executor, const data::Loader &loader, const Options &options, uint64_t residentBefore);

} // namespace msamp::bench

#endif
