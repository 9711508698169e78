// Collects kernels in one gpu.module and lowers it: arith, math, vector, scf -> LLVM and NVVM -> LLVM IR -> PTX.
#include "codegen/cuda/CudaKernels.h"

#include "codegen/cuda/Lowering.h"
#include "codegen/cuda/UpdateKernel.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/ExecutionEngine/OptUtils.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

using namespace mlir;

namespace msamp::codegen::cuda {
namespace {

// Math first: what it leaves may widen and narrow.
struct LowerForTarget : PassWrapper<LowerForTarget, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerForTarget)
  explicit LowerForTarget(const Target &target) : target(target) {}
  LowerForTarget(const LowerForTarget &) = default;
  void runOnOperation() override {
    for (int round = 0; round < 2; ++round) {
      RewritePatternSet patterns(&getContext());
      if (round == 0)
        populateMathPatterns(patterns);
      else
        populateConversionPatterns(patterns, target);
      if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
        return signalPassFailure();
    }
  }
  Target target;
};

std::unique_ptr<llvm::TargetMachine> createMachine(const Target &target, Operation *where) {
  static const bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) {
    where->emitError() << "this LLVM has no code generator for " << triple.str() << ": " << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast; // arith sets no contract flag: no FMAs otherwise
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(
      triple, target.name, target.features, options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

} // namespace

CudaKernels::CudaKernels(MLIRContext *context, const Target &target) : target(target) {
  context->loadDialect<scf::SCFDialect, vector::VectorDialect, LLVM::LLVMDialect, NVVM::NVVMDialect, gpu::GPUDialect,
                       cf::ControlFlowDialect, arith::ArithDialect, math::MathDialect>();
  module = ModuleOp::create(UnknownLoc::get(context));
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(module->getBody());
  gpuModule = gpu::GPUModuleOp::create(builder, module->getLoc(), "kernels");
}
CudaKernels::~CudaKernels() = default;

int64_t workspaceBytes(ClusterOp cluster, const Target &target) {
  return clusterWorkspaceBytes(cluster, target);
}

LogicalResult CudaKernels::addCluster(ClusterOp cluster, StringRef symbol, SmallVectorImpl<KernelEntry> &entries) {
  return emitClusterKernel(gpuModule, cluster, symbol, target, entries);
}

LogicalResult CudaKernels::addUpdate(StringRef symbol, const partition::ClassStorage &storage, StringRef optimizer,
                                     KernelEntry &entry, int64_t &blocksPerCta) {
  return emitUpdateKernel(gpuModule, symbol, storage, optimizer, target, entry, blocksPerCta);
}

LogicalResult CudaKernels::writePtx(const std::string &path) {
  MLIRContext *context = module->getContext();
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
  PassManager passes(context);
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(std::make_unique<LowerForTarget>(target));
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(createConvertVectorToLLVMPass());
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createConvertControlFlowToLLVMPass());
  passes.addPass(createConvertFuncToLLVMPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  if (failed(passes.run(*module)))
    return failure();
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> lowered = translateModuleToLLVMIR(gpuModule, llvmContext, "kernels");
  if (!lowered)
    return module->emitError() << "no translation of the GPU kernels to LLVM";
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(target, *module);
  if (!machine)
    return failure();
  lowered->setTargetTriple(machine->getTargetTriple());
  lowered->setDataLayout(machine->createDataLayout());
  if (llvm::Error error = makeOptimizingTransformer(3, 0, machine.get())(lowered.get()))
    return module->emitError() << "LLVM: " << llvm::toString(std::move(error));
  SmallString<0> text;
  llvm::raw_svector_ostream into(text);
  {
    llvm::legacy::PassManager emission;
    if (machine->addPassesToEmitFile(emission, into, nullptr, llvm::CodeGenFileType::AssemblyFile))
      return module->emitError() << "LLVM writes no PTX";
    emission.run(*lowered);
  }
  std::error_code code;
  llvm::raw_fd_ostream os(path, code);
  if (code)
    return module->emitError() << path << ": " << code.message();
  os << text;
  os.close();
  if (os.has_error()) {
    std::string message = os.error().message();
    os.clear_error();
    return module->emitError() << path << ": " << message;
  }
  return success();
}

} // namespace msamp::codegen::cuda
