// The parts of msamp-kernel-check.
#ifndef MSAMP_TESTS_GPU_CHECK_H
#define MSAMP_TESTS_GPU_CHECK_H

#include "runtime/plan/PlanIO.h"
#include "tests/gpu/Gpu.h"

#include <string>

namespace msamp::gputest {

struct Context {
  const runtime::LoadedPlan &loaded;
  Gpu &gpu;
  void *module;       // the plan's kernels on the device
  void *reference;    // kernels/TARGET.reference.so
  std::string filter; // of kernels' symbols; empty: all

  // A function of the reference, for this processor where there is a variant; null if there is none.
  void *function(const std::string &symbol) const;
  bool wanted(const std::string &symbol) const { return filter.empty() || symbol == filter; }
};

// Position in the sequence of checks, so that a lost device costs one of them: the program starts itself again behind
// it.
struct Progress {
  int next = 0, skip = 0, checked = 0, wrong = 0;
  // Whether the next check is still to be done.
  bool begin() { return next++ >= skip; }
  void finish(bool right) { ++checked, wrong += !right; }
};

void checkKernels(const Context &context, Progress &progress);
void checkUpdates(const Context &context, Progress &progress);

// GB/s of a copy on the device that moves `bytes` in all, going round `arena`.
double copyBandwidth(Gpu &gpu, Address arena, size_t arenaBytes, uint64_t bytes);

} // namespace msamp::gputest

#endif
