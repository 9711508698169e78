// A thin layer over OpBuilder for emitting kernels at the level of scf, arith, vector and LLVM pointers. One statement
// an operation: the order of operations, and so the output, must not depend on the host compiler.
#ifndef MSAMP_CODEGEN_CPU_KERNELBUILDER_H
#define MSAMP_CODEGEN_CPU_KERNELBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace msamp::codegen {

class KernelBuilder {
public:
  KernelBuilder(mlir::Location loc, mlir::OpBuilder &builder) : b(loc, builder) {}

  mlir::Type i64() { return b.getI64Type(); }
  mlir::Type f32() { return b.getF32Type(); }
  mlir::Type ptr() { return mlir::LLVM::LLVMPointerType::get(b.getContext()); }
  // The element type itself for width 0 (a scalar), else a vector.
  mlir::Type widen(mlir::Type element, int64_t width) {
    return width ? mlir::Type(mlir::VectorType::get({width}, element)) : element;
  }

  mlir::Value index(int64_t value) { return mlir::arith::ConstantOp::create(b, b.getI64IntegerAttr(value)); }
  mlir::Value constant(mlir::Type type, mlir::Attribute element);
  mlir::Value constant(mlir::Type type, double value);
  mlir::Value integer(mlir::Type type, int64_t value);
  mlir::Value add(mlir::Value x, mlir::Value y) { return mlir::arith::AddIOp::create(b, x, y); }
  mlir::Value add(mlir::Value x, int64_t y) { return y == 0 ? x : add(x, index(y)); }
  mlir::Value mul(mlir::Value x, int64_t y);
  mlir::Value divide(mlir::Value x, int64_t y);
  mlir::Value remainder(mlir::Value x, int64_t y);
  mlir::Value splat(mlir::Value scalar, int64_t width);

  // Element-typed address arithmetic; types that LLVM does not know (FP8, i1) are stored as bytes.
  mlir::Type memoryType(mlir::Type element);
  mlir::Value address(mlir::Value base, mlir::Value elementIndex, mlir::Type element);
  mlir::Value load(mlir::Value base, mlir::Value elementIndex, mlir::Type element, int64_t width);
  void store(mlir::Value value, mlir::Value base, mlir::Value elementIndex, mlir::Type element);

  // for (i = from; i < to; i += step) body(i)
  void loop(mlir::Value from, mlir::Value to, int64_t step, const std::function<void(mlir::Value)> &body);
  void when(mlir::Value condition, const std::function<void()> &body);

  // A function in the kernel ABI; returns its pointers already loaded.
  struct Kernel {
    mlir::func::FuncOp func;
    llvm::SmallVector<mlir::Value> args;
    mlir::Value begin, end;
  };
  static Kernel kernel(mlir::ModuleOp module, mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef symbol,
                       unsigned args, bool chunked);

  mlir::ImplicitLocOpBuilder b;
};

} // namespace msamp::codegen

#endif
