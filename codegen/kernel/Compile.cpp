#include "codegen/kernel/Compile.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;

namespace msamp::codegen {
namespace {

struct ApplyPatterns : PassWrapper<ApplyPatterns, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ApplyPatterns)
  explicit ApplyPatterns(PopulatePatterns populate) : populate(std::move(populate)) {}
  ApplyPatterns(const ApplyPatterns &) = default;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populate(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
  PopulatePatterns populate;
};

} // namespace

OwningOpRef<ModuleOp> makeKernelModule(MLIRContext *context) {
  context->loadDialect<scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect, cf::ControlFlowDialect,
                       func::FuncDialect, arith::ArithDialect, math::MathDialect>();
  return ModuleOp::create(UnknownLoc::get(context));
}

LogicalResult lowerToLlvmDialect(ModuleOp module, ArrayRef<PopulatePatterns> rounds) {
  PassManager passes(module.getContext());
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  for (const PopulatePatterns &populate : rounds)
    passes.addPass(std::make_unique<ApplyPatterns>(populate));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(module);
}

std::unique_ptr<llvm::Module> translate(Operation *lowered, llvm::LLVMContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  lowered->getContext()->appendDialectRegistry(registry);
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(lowered, context, "kernels");
  if (!module)
    lowered->emitError() << "no translation of the kernels to LLVM";
  return module;
}

LogicalResult compile(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                      const std::string &path, Operation *where) {
  if (llvm::Error error = makeOptimizingTransformer(3, 0, &machine)(&module))
    return where->emitError() << "LLVM: " << llvm::toString(std::move(error));
  std::error_code code;
  llvm::raw_fd_ostream os(path, code);
  if (code)
    return where->emitError() << path << ": " << code.message();
  {
    llvm::legacy::PassManager emission; // writes until it is gone
    if (machine.addPassesToEmitFile(emission, os, nullptr, type))
      return where->emitError() << "LLVM writes no such file for " << machine.getTargetTriple().str();
    emission.run(module);
  }
  os.close();
  if (os.has_error()) {
    std::string message = os.error().message();
    os.clear_error(); // or its destructor ends the program
    return where->emitError() << path << ": " << message;
  }
  return success();
}

} // namespace msamp::codegen
