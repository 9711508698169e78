// Collects kernels in one module, lowers it to LLVM and links it: module -> object (position independent) -> ld.lld ->
// .so.
#include "codegen/cpu/CpuKernels.h"

#include "codegen/cpu/ClusterKernel.h"
#include "codegen/cpu/ExpandConversions.h"
#include "codegen/cpu/UpdateKernel.h"
#include "codegen/kernel/Compile.h"
#include "codegen/kernel/ReduceAngles.h"

#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;

namespace msamp::codegen {
namespace {

// Every kernel is there twice: for processors with AVX2 under its own name, and for those with AVX-512 with `.v4` after
// it. The runtime takes the best that its processor has, so a plan runs on other machines than the one that compiled
// it.
constexpr const char *baseline = "x86-64-v3", *wide = "x86-64-v4";

void addVariants(llvm::Module &module) {
  SmallVector<llvm::Function *> functions;
  for (llvm::Function &f : module)
    if (!f.isDeclaration())
      functions.push_back(&f);
  for (llvm::Function *f : functions) {
    llvm::ValueToValueMapTy map;
    llvm::Function *clone = llvm::CloneFunction(f, map);
    clone->setName(f->getName() + ".v4");
    f->addFnAttr("target-cpu", baseline);
    clone->addFnAttr("target-cpu", wide);
    // Vectors of 16 are ours to choose; without these they are split in two.
    clone->addFnAttr("prefer-vector-width", "512");
    clone->addFnAttr("min-legal-vector-width", "512");
  }
}

LogicalResult emitObject(llvm::Module &module, const std::string &path, Operation *where) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(llvm::sys::getDefaultTargetTriple());
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return where->emitError() << "no code generator for " << triple.str() << ": " << error;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Fast;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      triple, baseline, "", options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  addVariants(module);
  return compile(module, *machine, llvm::CodeGenFileType::ObjectFile, path, where);
}

LogicalResult link(const std::string &object, const std::string &library, Operation *where) {
  llvm::ErrorOr<std::string> linker = llvm::sys::findProgramByName("ld.lld-22");
  if (!linker)
    linker = llvm::sys::findProgramByName("ld.lld", {"/usr/lib/llvm-22/bin", "/usr/bin"});
  if (!linker)
    linker = llvm::sys::findProgramByName("ld");
  if (!linker)
    return where->emitError() << "no linker: install lld-22 (or binutils)";
  SmallVector<StringRef> args = {*linker, "-shared", "-O2", "--strip-debug", "-o", library, object};
  std::string error;
  if (llvm::sys::ExecuteAndWait(*linker, args, std::nullopt, {}, 0, 0, &error) != 0)
    return where->emitError() << *linker << " failed" << (error.empty() ? "" : ": ") << error;
  return success();
}

} // namespace

KernelShape cpuKernelShape(ClusterOp cluster) {
  auto domain = fuse::ClusterDomain::analyze(cluster);
  if (failed(domain))
    return {0, false, 0};
  int64_t values = partialValues(cluster, *domain);
  return {domain->chunks(), values > 0, values * static_cast<int64_t>(sizeof(float))};
}

CpuKernels::CpuKernels(MLIRContext *context) : module(makeKernelModule(context)) {}
CpuKernels::~CpuKernels() = default;

LogicalResult CpuKernels::addCluster(ClusterOp cluster, StringRef symbol) {
  return emitClusterKernel(*module, cluster, symbol);
}

LogicalResult CpuKernels::addUpdate(StringRef symbol, const partition::ClassStorage &storage, StringRef optimizer) {
  return emitUpdateKernel(*module, symbol, storage, optimizer);
}

LogicalResult CpuKernels::writeLibrary(const std::string &path) {
  return writeHostLibrary(*module, path);
}

LogicalResult writeHostLibrary(ModuleOp module, const std::string &path) {
  // Transcendental functions and conversions of FP8 and BF16 as plain arithmetic, so that the library needs no other.
  PopulatePatterns rounds[] = {[](RewritePatternSet &patterns) {
                                 math::populateExpansionPatterns(patterns, {"exp2"});
                                 populateReduceAnglePatterns(patterns);
                                 populateMathPolynomialApproximationPatterns(patterns);
                               },
                               populateExpandConversionPatterns};
  if (failed(lowerToLlvmDialect(module, rounds)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> lowered = translate(module, context);
  if (!lowered)
    return failure();
  std::string object = path + ".o";
  LogicalResult result = emitObject(*lowered, object, module);
  if (succeeded(result))
    result = link(object, path, module);
  llvm::sys::fs::remove(object);
  return result;
}

} // namespace msamp::codegen
