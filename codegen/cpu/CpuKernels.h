// CPU kernels: clusters and optimizer updates as one shared library. Kernels have the C signature
// `void symbol(void *const *args, int64_t begin, int64_t end)` and run chunks [begin, end); args are the operands, the
// results, then the workspace. A kernel with partial sums also has `void symbol_finish(void *const *args)`.
#ifndef MSAMP_CODEGEN_CPU_CPUKERNELS_H
#define MSAMP_CODEGEN_CPU_CPUKERNELS_H

#include "ir/Msamp/Msamp.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace msamp {
namespace partition {
struct ClassStorage;
}
} // namespace msamp

namespace msamp::codegen {

struct KernelShape {
  int64_t chunks;         // fixed by the compiler, so that results do not depend on the number of threads
  bool finish;            // whether symbol_finish is to be called afterwards
  int64_t workspaceBytes; // partial sums; 0: no workspace argument
};

// Shape of the kernel that addCluster will emit. The cluster must come from the fuse phase.
KernelShape cpuKernelShape(ClusterOp cluster);

class CpuKernels {
public:
  explicit CpuKernels(mlir::MLIRContext *context);
  ~CpuKernels();

  // Emits the cluster's kernel under `symbol`.
  mlir::LogicalResult addCluster(ClusterOp cluster, llvm::StringRef symbol);

  // Emits the update of a state class for adamw, adam or sgd over blocks of 128 values; runtime/exec/Update.h has its
  // arguments.
  mlir::LogicalResult addUpdate(llvm::StringRef symbol, const partition::ClassStorage &storage,
                                llvm::StringRef optimizer);

  // Lowers, optimises and links everything added into the shared library `path`.
  mlir::LogicalResult writeLibrary(const std::string &path);

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// Lowers, optimises and links a module of kernels in func, scf, arith, math, vector and LLVM into a shared library.
mlir::LogicalResult writeHostLibrary(mlir::ModuleOp module, const std::string &path);

} // namespace msamp::codegen

#endif
