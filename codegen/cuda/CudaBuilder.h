// Builds GPU kernels: what a thread knows of its block, exchanges, barriers and shared memory, in NVVM.
#ifndef MSAMP_CODEGEN_CUDA_CUDABUILDER_H
#define MSAMP_CODEGEN_CUDA_CUDABUILDER_H

#include "codegen/kernel/KernelBuilder.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace msamp::codegen::cuda {

class CudaBuilder : public KernelBuilder {
public:
  using KernelBuilder::KernelBuilder;

  mlir::Type global() { return mlir::LLVM::LLVMPointerType::get(b.getContext(), 1); }
  mlir::Type shared() { return mlir::LLVM::LLVMPointerType::get(b.getContext(), 3); }

  using KernelBuilder::integer;
  mlir::Value integer(int64_t value) { return integer(i32(), value); }
  mlir::Value less(mlir::Value x, int64_t y);
  mlir::Value equal(mlir::Value x, int64_t y);
  mlir::Value both(mlir::Value x, mlir::Value y); // a null operand counts as true
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  mlir::Value extract(mlir::Value vector, int64_t position);

  using KernelBuilder::address;
  mlir::Value address(mlir::Value base, int64_t elementIndex, mlir::Type element);

  mlir::Value threadId();
  mlir::Value blockId();
  // The same integer, of which the compiler knows nothing: what is computed from it is not computed before, outside of a
  // loop or a branch, and kept in registers.
  mlir::Value computedHere(mlir::Value value);
  // Exchange with the lane whose number differs in one bit.
  mlir::Value exchange(mlir::Value value, int64_t bit);
  // All threads of the block, or those of the team (of whole warps) alone.
  void barrier();
  void barrier(mlir::Value team, int64_t threads);
  // Reduction over `lanes` neighbouring lanes (a power of two); every lane gets the result.
  mlir::Value reduceLanes(ReduceKind kind, mlir::Value value, int64_t lanes);
  // Over the elements of a vector, pairwise.
  mlir::Value reduceVector(ReduceKind kind, mlir::Value vector);

  // Stores 16 bytes, four words, of a line of the L2 cache that others complete: what else passes through makes room
  // before it does.
  void storePart(llvm::ArrayRef<mlir::Value> words, mlir::Value at);

  // `count` FP32 values in shared memory.
  mlir::Value sharedArray(mlir::gpu::GPUModuleOp module, llvm::StringRef symbol, int64_t count);

  // Shared memory whose size the launch gives, in bytes.
  mlir::Value dynamicShared(mlir::gpu::GPUModuleOp module);

  // Copies from global to shared memory in the background, 4, 8 or a multiple of 16 bytes; a group of them ends at a
  // commit, and the thread may wait until no more than `pending` of its groups are on their way.
  void copyAsync(mlir::Value to, mlir::Value from, int64_t bytes);
  void commitCopies();
  void awaitCopies(int64_t pending);

  // An entry point that takes `args` pointers; inserts at its start.
  mlir::LLVM::LLVMFuncOp kernel(mlir::gpu::GPUModuleOp module, llvm::StringRef symbol, unsigned args, int64_t block,
                                int64_t blocksPerMultiprocessor);
};

} // namespace msamp::codegen::cuda

#endif
