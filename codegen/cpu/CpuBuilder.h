// Builds kernels for the CPU, in the ABI of CpuKernels.h.
#ifndef MSAMP_CODEGEN_CPU_CPUBUILDER_H
#define MSAMP_CODEGEN_CPU_CPUBUILDER_H

#include "codegen/kernel/KernelBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace msamp::codegen {

class CpuBuilder : public KernelBuilder {
public:
  using KernelBuilder::KernelBuilder;

  mlir::Type ptr() { return mlir::LLVM::LLVMPointerType::get(b.getContext()); }

  // BF16 too is kept as integers: processors without BF16 instructions get its scalars by calls into the compiler's
  // run-time library otherwise, which kernels do not link.
  mlir::Type memoryType(mlir::Type element) override {
    return element.isBF16() ? b.getI16Type() : KernelBuilder::memoryType(element);
  }
  // Of the element at an index, or of `width` from it on.
  mlir::Value load(mlir::Value base, mlir::Value elementIndex, mlir::Type element, int64_t width) {
    mlir::Value at = address(base, elementIndex, element);
    return KernelBuilder::load(at, element, width);
  }
  void store(mlir::Value value, mlir::Value base, mlir::Value elementIndex, mlir::Type element) {
    mlir::Value at = address(base, elementIndex, element);
    KernelBuilder::store(value, at, element);
  }

  // for (i = from; i < to; i += step) body(i)
  void loop(mlir::Value from, mlir::Value to, int64_t step, const std::function<void(mlir::Value)> &body);

  // A function in the kernel ABI; returns its pointers already loaded.
  struct Kernel {
    mlir::func::FuncOp func;
    llvm::SmallVector<mlir::Value> args;
    mlir::Value begin, end;
  };
  static Kernel kernel(mlir::ModuleOp module, mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef symbol,
                       unsigned args, bool chunked);
};

} // namespace msamp::codegen

#endif
