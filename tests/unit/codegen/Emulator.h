// Runs GPU kernels on the CPU, to check what they compute where there is no GPU: the threads of a block are fibers that
// take turns at barriers and exchanges, blocks run one after the other.
#ifndef MSAMP_TESTS_UNIT_CODEGEN_EMULATOR_H
#define MSAMP_TESTS_UNIT_CODEGEN_EMULATOR_H

#include "codegen/cuda/ClusterKernel.h"

#include <vector>

namespace msamp::test {

class Emulator {
public:
  // Compiles the module's kernels for this processor.
  explicit Emulator(mlir::gpu::GPUModuleOp kernels);
  ~Emulator();
  Emulator(const Emulator &) = delete;

  // Throws if threads wait for each other for ever.
  void launch(const codegen::cuda::KernelEntry &entry, std::vector<void *> args);

private:
  void *library = nullptr;
};

} // namespace msamp::test

#endif
