// A thin layer over OpBuilder for emitting GPU kernels at the level of one thread: NVVM, LLVM pointers, arith, vector
// and scf. One statement an operation: the order of operations, and so the output, must not depend on the host
// compiler.
#ifndef MSAMP_CODEGEN_CUDA_CUDABUILDER_H
#define MSAMP_CODEGEN_CUDA_CUDABUILDER_H

#include "codegen/kernel/BodyOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <functional>

namespace msamp::codegen::cuda {

class CudaBuilder {
public:
  CudaBuilder(mlir::Location loc, mlir::OpBuilder &builder) : b(loc, builder) {}

  mlir::Type i32() { return b.getI32Type(); }
  mlir::Type i64() { return b.getI64Type(); }
  mlir::Type f32() { return b.getF32Type(); }
  mlir::Type global() { return mlir::LLVM::LLVMPointerType::get(b.getContext(), 1); }
  mlir::Type shared() { return mlir::LLVM::LLVMPointerType::get(b.getContext(), 3); }

  // Integers: of 32 bits unless an operand has 64.
  mlir::Value integer(mlir::Type type, int64_t value) { return integerOf(b, type, value); }
  mlir::Value integer(int64_t value) { return integerOf(b, i32(), value); }
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, int64_t y);
  mlir::Value mul(mlir::Value x, int64_t y);
  mlir::Value divide(mlir::Value x, int64_t y);
  mlir::Value remainder(mlir::Value x, int64_t y);
  mlir::Value resize(mlir::Value x, mlir::Type type); // zero-extends or cuts off
  mlir::Value less(mlir::Value x, int64_t y);
  mlir::Value equal(mlir::Value x, int64_t y);
  mlir::Value both(mlir::Value x, mlir::Value y); // a null operand counts as true
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  mlir::Value splat(mlir::Value scalar, int64_t width);
  mlir::Value extract(mlir::Value vector, int64_t position);

  // Element-typed memory; i1 is stored as bytes. `alignment` in bytes, at most 16.
  mlir::Type memoryType(mlir::Type element);
  static int64_t bytesOf(mlir::Type element);
  mlir::Value address(mlir::Value base, mlir::Value elementIndex, mlir::Type element);
  mlir::Value address(mlir::Value base, int64_t elementIndex, mlir::Type element);
  mlir::Value load(mlir::Value at, mlir::Type element, int64_t width, int64_t alignment = 0);
  void store(mlir::Value value, mlir::Value at, mlir::Type element, int64_t alignment = 0);

  void when(mlir::Value condition, const std::function<void()> &body); // a null condition is true
  // for (i = from; i < to; i += step) values = body(i, values)
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value from, mlir::Value to, mlir::Value step, mlir::ValueRange initial,
       const std::function<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> &body);

  mlir::Value threadId();
  mlir::Value blockId();
  // Exchange with the lane whose number differs in one bit.
  mlir::Value exchange(mlir::Value value, int64_t bit);
  // All threads of the block, or those of the team (of whole warps) alone.
  void barrier();
  void barrier(mlir::Value team, int64_t threads);
  // Reduction over `lanes` neighbouring lanes (a power of two); every lane gets the result.
  mlir::Value reduceLanes(ReduceKind kind, mlir::Value value, int64_t lanes);
  // Over the elements of a vector, pairwise.
  mlir::Value reduceVector(ReduceKind kind, mlir::Value vector);

  // `count` FP32 values in shared memory.
  mlir::Value sharedArray(mlir::gpu::GPUModuleOp module, llvm::StringRef symbol, int64_t count);

  // Shared memory whose size the launch gives, in bytes.
  mlir::Value dynamicShared(mlir::gpu::GPUModuleOp module);

  // An entry point; inserts at its start. The first `inputs` pointers are only read from.
  mlir::LLVM::LLVMFuncOp kernel(mlir::gpu::GPUModuleOp module, llvm::StringRef symbol, unsigned inputs,
                                unsigned outputs, bool workspace, int64_t block, int64_t blocksPerMultiprocessor);

  mlir::ImplicitLocOpBuilder b;
};

} // namespace msamp::codegen::cuda

#endif
