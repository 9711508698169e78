// Collects kernels in one gpu.module and lowers it: arith, math, vector, scf -> LLVM and NVVM -> LLVM IR -> PTX.
#include "codegen/cuda/CudaKernels.h"

#include "codegen/cuda/Lowering.h"
#include "codegen/cuda/UpdateKernel.h"
#include "codegen/kernel/Compile.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
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

CudaKernels::CudaKernels(MLIRContext *context, const Target &target)
    : target(target), module(makeKernelModule(context)) {
  context->loadDialect<NVVM::NVVMDialect, gpu::GPUDialect>();
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
  DialectRegistry registry;
  registerGPUDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  module->getContext()->appendDialectRegistry(registry);
  // Math first: what it leaves may widen and narrow.
  PopulatePatterns rounds[] = {populateMathPatterns,
                               [&](RewritePatternSet &patterns) { populateConversionPatterns(patterns, target); }};
  if (failed(lowerToLlvmDialect(*module, rounds)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> lowered = translate(gpuModule, context);
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(target, *module);
  if (!lowered || !machine)
    return failure();
  lowered->setTargetTriple(machine->getTargetTriple());
  lowered->setDataLayout(machine->createDataLayout());
  return compile(*lowered, *machine, llvm::CodeGenFileType::AssemblyFile, path, *module);
}

} // namespace msamp::codegen::cuda
