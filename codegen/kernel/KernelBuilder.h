// A thin layer over OpBuilder for emitting kernels at the level of one thread: arith, vector, scf and LLVM pointers. One
// statement an operation: the order of operations, and so the output, must not depend on the host compiler.
#ifndef MSAMP_CODEGEN_KERNEL_KERNELBUILDER_H
#define MSAMP_CODEGEN_KERNEL_KERNELBUILDER_H

#include "codegen/kernel/BodyOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <functional>

namespace msamp::codegen {

class KernelBuilder {
public:
  KernelBuilder(mlir::Location loc, mlir::OpBuilder &builder) : b(loc, builder) {}
  virtual ~KernelBuilder() = default;

  mlir::Type i32() { return b.getI32Type(); }
  mlir::Type i64() { return b.getI64Type(); }
  mlir::Type f32() { return b.getF32Type(); }

  // Constants of a scalar or vector type.
  mlir::Value constant(mlir::Type type, double value) { return constantOf(b, type, value); }
  mlir::Value integer(mlir::Type type, int64_t value) { return integerOf(b, type, value); }
  mlir::Value index(int64_t value) { return integer(i64(), value); }

  // Unsigned integers; of two widths the narrower is extended.
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, int64_t y);
  mlir::Value mul(mlir::Value x, int64_t y);
  mlir::Value divide(mlir::Value x, int64_t y);
  mlir::Value remainder(mlir::Value x, int64_t y);
  mlir::Value resize(mlir::Value x, mlir::Type type); // zero-extends or cuts off
  mlir::Value splat(mlir::Value scalar, int64_t width);

  // Element-typed memory: types that LLVM does not know (FP8, i1) are kept as bytes. `alignment` in bytes: at least an
  // element's, at most 16.
  virtual mlir::Type memoryType(mlir::Type element);
  static int64_t bytesOf(mlir::Type element);
  mlir::Value address(mlir::Value base, mlir::Value elementIndex, mlir::Type element);
  mlir::Value load(mlir::Value at, mlir::Type element, int64_t width, int64_t alignment = 0);
  void store(mlir::Value value, mlir::Value at, mlir::Type element, int64_t alignment = 0);

  void when(mlir::Value condition, const std::function<void()> &body); // a null condition is true
  // values = condition ? body() : otherwise; as many of both
  llvm::SmallVector<mlir::Value> when(mlir::Value condition, mlir::ValueRange otherwise,
                                      const std::function<llvm::SmallVector<mlir::Value>()> &body);
  // for (i = from; i < to; i += step) values = body(i, values)
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value from, mlir::Value to, mlir::Value step, mlir::ValueRange initial,
       const std::function<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> &body);

  mlir::ImplicitLocOpBuilder b;
};

} // namespace msamp::codegen

#endif
