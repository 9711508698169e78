// From a module of kernels to a file: the lowering to LLVM that all targets share, and what LLVM makes of it.
#ifndef MSAMP_CODEGEN_KERNEL_COMPILE_H
#define MSAMP_CODEGEN_KERNEL_COMPILE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/Support/CodeGen.h"

#include <functional>
#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace msamp::codegen {

// An empty module, its context ready for what kernels are made of.
mlir::OwningOpRef<mlir::ModuleOp> makeKernelModule(mlir::MLIRContext *context);

using PopulatePatterns = std::function<void(mlir::RewritePatternSet &)>;

// arith, math, vector, scf and func to the LLVM dialect. Before that `rounds` of patterns say in which of their ops the
// target computes, each applied to what the one before left.
mlir::LogicalResult lowerToLlvmDialect(mlir::ModuleOp module, llvm::ArrayRef<PopulatePatterns> rounds);

// `lowered`, a module in the LLVM dialect or a GPU module in it, as LLVM IR; null after an error.
std::unique_ptr<llvm::Module> translate(mlir::Operation *lowered, llvm::LLVMContext &context);

// Optimises for the machine and writes the file; errors are reported at `where`.
mlir::LogicalResult compile(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                            const std::string &path, mlir::Operation *where);

} // namespace msamp::codegen

#endif
