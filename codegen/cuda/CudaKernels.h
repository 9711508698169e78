// GPU kernels of a plan: clusters and optimizer updates as one PTX module, and as a cubin where there is an assembler.
#ifndef MSAMP_CODEGEN_CUDA_CUDAKERNELS_H
#define MSAMP_CODEGEN_CUDA_CUDAKERNELS_H

#include "codegen/cuda/ClusterKernel.h"

#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace msamp {
namespace partition {
struct ClassStorage;
}
} // namespace msamp

namespace msamp::codegen::cuda {

// Scratch that the kernels of a cluster want; 0: no workspace argument.
int64_t workspaceBytes(ClusterOp cluster, const Target &target);

class CudaKernels {
public:
  CudaKernels(mlir::MLIRContext *context, const Target &target);
  ~CudaKernels();

  // Emits the cluster's kernels, the first of them under `symbol`.
  mlir::LogicalResult addCluster(ClusterOp cluster, llvm::StringRef symbol,
                                 llvm::SmallVectorImpl<KernelEntry> &entries);

  // Emits the update of a state class; UpdateKernel.h has its arguments. `entry` has no grid: blocks of 128 values over
  // `blocksPerCta`.
  mlir::LogicalResult addUpdate(llvm::StringRef symbol, const partition::ClassStorage &storage,
                                llvm::StringRef optimizer, KernelEntry &entry, int64_t &blocksPerCta);

  // Lowers and optimises everything added, once, and writes it as PTX.
  mlir::LogicalResult writePtx(const std::string &path);

  mlir::gpu::GPUModuleOp kernels() { return gpuModule; }

private:
  Target target;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::gpu::GPUModuleOp gpuModule;
};

// What ptxas says about an entry point.
struct EntryUsage {
  std::string symbol;
  int64_t registers = 0, spillBytes = 0, sharedBytes = 0; // shared: declared in the module
};

// The path of ptxas: in PATH, under $CUDA_HOME and $CUDA_PATH, then where toolkits are installed. Empty: there is none.
std::string findAssembler();

// Assembles PTX. On failure `message` is what the assembler said.
mlir::LogicalResult assemble(const std::string &assembler, const Target &target, const std::string &ptx,
                             const std::string &cubin, std::vector<EntryUsage> &usage, std::string &message);

} // namespace msamp::codegen::cuda

#endif
