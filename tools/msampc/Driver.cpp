// Phases in order: import, the pass pipelines, code generation; and everything around them that can fail.
#include "tools/msampc/Driver.h"

#include "codegen/ModelWeights.h"
#include "codegen/PlanDirectory.h"
#include "codegen/cpu/CpuKernels.h"
#include "codegen/cuda/CudaKernels.h"
#include "ir/Msamp/UpstreamDerivatives.h"
#include "passes/schedule/Passes.h"
#include "passes/verify/Passes.h"
#include "runtime/core/Error.h"
#include "runtime/monitor/MemoryTable.h"
#include "runtime/plan/MemoryTable.h"
#include "tools/msampc/Diagnostics.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <filesystem>
#include <iostream>
#include <new>

namespace msamp::msampc {
using namespace mlir;
namespace fs = std::filesystem;

namespace {

// A failure that the diagnostic handler has reported already.
struct Reported {
  int exitCode;
};

// While a plan is being written, a first signal lets the writer clean up; a second one ends the process.
volatile std::sig_atomic_t interrupted = 0;
void interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

class Compilation {
public:
  explicit Compilation(Options &options)
      : options(options), context(registry(), MLIRContext::Threading::DISABLED), diagnostics(context) {}

  void run() {
    // A long compilation should not end in vain.
    if (options.compileTo.empty())
      codegen::checkDirectory(options.output);
    if (!options.remarks.empty() && !enableRemarks(context, options.remarks, remarksOf, remarksBroken))
      throw Reported{frontend::kIo};
    if (!options.dumpPhases.empty())
      makeDumpFolder();
    options.pipeline.parameterValues = [this] { return weights; };

    // A whole function says no more than the message and its node do.
    context.printOpOnDiagnostic(false);

    ArrayRef<StringRef> phases = phaseNames();
    size_t number = 0;
    if (options.compileFrom.empty()) {
      progress.start("import");
      branches.push_back({"", frontend::importModel(options.input, options.import, context)});
      if (failed(mlir::verify(*branches[0].module)))
        throw Reported{frontend::kInternal};
      openWeights(options.input);
      finishPhase(number++, branches[0]);
      if (options.compileTo == "import")
        return writeModules();
    } else {
      parseModules();
      number = static_cast<size_t>(llvm::find(phases, options.compileFrom) - phases.begin()) + 1;
      if (options.compileFrom == options.compileTo)
        return writeModules();
    }
    for (; phases[number] != "codegen"; ++number) {
      if (dependsOnTarget(phases[number]))
        branchOut();
      for (Branch &branch : branches) {
        startPhase(phases[number], branch.target);
        runPhase(phases[number], branch);
        finishPhase(number, branch);
      }
      if (options.compileTo == phases[number])
        return writeModules();
    }
    writePlan();
  }

private:
  // The module: one for all targets as long as nothing depends on them (`target` is empty), then one each.
  struct Branch {
    std::string target;
    OwningOpRef<ModuleOp> module;
  };

  void branchOut() {
    if (!branches[0].target.empty())
      return;
    OwningOpRef<ModuleOp> shared = std::move(branches[0].module);
    branches.clear();
    for (const std::string &target : options.targets) {
      bool last = branches.size() + 1 == options.targets.size();
      branches.push_back({target, last ? std::move(shared) : OwningOpRef<ModuleOp>(shared->clone())});
      (*branches.back().module)->setAttr("msamp.target", StringAttr::get(&context, target));
    }
  }

  // The file of a branch, where `path` is the file of the only one: the target's name before the extension.
  std::string pathOf(const fs::path &path, const std::string &target) const {
    if (target.empty() || options.targets.size() == 1)
      return path.string();
    return (path.parent_path() / (path.stem().string() + "." + target + path.extension().string())).string();
  }

  static const DialectRegistry &registry() {
    static DialectRegistry all = [] {
      DialectRegistry r;
      r.insert<MsampDialect, planir::PlanDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
      registerDerivativeModels(r);
      return r;
    }();
    return all;
  }

  void openWeights(const std::string &model) {
    // Read when a value is asked for: with --init only frozen parameters are.
    weights = std::make_shared<codegen::ModelWeights>(model);
  }

  void makeDumpFolder() {
    std::error_code error;
    fs::create_directories(options.dumpPhases, error);
    if (error)
      runtime::failIo("cannot create {}: {}", options.dumpPhases, error.message());
  }

  void parseModules() {
    context.loadAllAvailableDialects();
    if (!dependsOnTarget(options.compileFrom))
      branches.push_back({"", parseModule(options.input)});
    else
      for (const std::string &target : options.targets) {
        std::string path = pathOf(options.input, target);
        branches.push_back({target, parseModule(path)});
        auto made = (*branches.back().module)->getAttrOfType<StringAttr>("msamp.target");
        if (made && made.getValue() != target)
          runtime::failData("{} is for {} and not for {}: compile it on with --target {}", path, made.getValue().str(), target,
                            made.getValue().str());
      }
    auto source = (*branches[0].module)->getAttrOfType<StringAttr>("msamp.source");
    if (source && !source.getValue().empty())
      openWeights(source.getValue().str());
  }

  OwningOpRef<ModuleOp> parseModule(const std::string &path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error))
      runtime::failIo("cannot read {}: no such file", path);
    auto module = parseSourceFile<ModuleOp>(path, ParserConfig(&context));
    if (!module)
      throw Reported{frontend::kBadData};
    checkParsed(*module, path);
    return module;
  }

  // The file has to be what --compile-from says, or later phases would find nothing to do and make an empty plan.
  void checkParsed(ModuleOp module, const std::string &path) {
    StringRef phase = options.compileFrom;
    auto wrote = module->getAttrOfType<StringAttr>("msamp.phase"); // what people wrote has none
    if (wrote && wrote.getValue() != phase)
      runtime::failData("{} is a module as the {} phase leaves it; go on from there with --compile-from {}", path,
                        wrote.getValue().str(), wrote.getValue().str());
    StringRef function = "step";
    if (phase == "import" || phase == "raise" || phase == "loss")
      function = "forward";
    else if (phase == "optimizer" || phase == "fuse")
      function = "micro_step";
    else if (phase == "schedule")
      function = "";
    bool there = function.empty() ? module->hasAttr("plan.inputs") : module.lookupSymbol(function) != nullptr;
    if (!there)
      runtime::failData("{} is no module as the {} phase leaves it (it has no {}); --compile-from has to name the phase "
                        "that wrote the file",
                        path, phase.str(), function.empty() ? "plan.inputs" : "function @" + function.str());
    PassManager manager(&context);
    verify::VerifyPhaseOptions check;
    check.phase = phase.str();
    manager.addPass(verify::createVerifyPhase(check));
    if (failed(manager.run(module)))
      throw Reported{frontend::kBadData};
  }

  // Names the target where there are several.
  void startPhase(StringRef phase, const std::string &target) {
    remarksOf = options.targets.size() > 1 ? target : "";
    progress.start((phase + (remarksOf.empty() ? "" : " ") + remarksOf).str());
  }

  void runPhase(StringRef phase, Branch &branch) {
    PassManager manager(&context);
    buildPhase(manager, phase, pipelineFor(branch.target));
    if (succeeded(manager.run(*branch.module)))
      return;
    if (diagnostics.errors() == 0)
      runtime::failInternal("phase {} failed and did not say why", phase.str());
    // Up to here it depends on the model whether a phase can do its work; from here on on what phases left.
    static constexpr StringRef onTheModel[] = {"raise", "loss", "autodiff", "recompute", "precision"};
    bool data = llvm::is_contained(onTheModel, phase) || !options.compileFrom.empty();
    throw Reported{data ? frontend::kBadData : frontend::kInternal};
  }

  PipelineOptions pipelineFor(const std::string &target) const {
    PipelineOptions pipeline = options.pipeline;
    if (target.empty())
      return pipeline;
    pipeline.target = target;
    pipeline.kernelShape = [gpu = codegen::cuda::Target::parse(target)](ClusterOp cluster) {
      codegen::KernelShape shape = codegen::cpuKernelShape(cluster);
      // On a GPU chunks and finish are those of the reference.
      if (gpu)
        shape.workspaceBytes = codegen::cuda::workspaceBytes(cluster, *gpu);
      return schedule::KernelShape{shape.chunks, shape.finish, shape.workspaceBytes};
    };
    return pipeline;
  }

  void finishPhase(size_t number, Branch &branch) {
    progress.finish();
    if (remarksBroken) runtime::failIo("cannot write remarks to {}: is the disk full?", options.remarks);
    (*branch.module)->setAttr("msamp.phase", StringAttr::get(&context, phaseNames()[number]));
    if (options.dumpPhases.empty())
      return;
    std::string file = llvm::formatv("{0,0+2}.{1}.mlir", number + 1, phaseNames()[number]).str();
    print(*branch.module, pathOf(fs::path(options.dumpPhases) / file, branch.target));
  }

  void writeModules() {
    for (Branch &branch : branches)
      print(*branch.module, options.output.empty() ? "-" : pathOf(options.output, branch.target));
    tellFrozen();
  }

  void print(ModuleOp module, const std::string &path) {
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    if (error)
      runtime::failIo("cannot write {}: {}", path, error.message());
    module->print(out, OpPrintingFlags().enableDebugInfo());
    out << "\n";
    out.flush();
    if (!out.has_error())
      return;
    std::string message = out.error().message();
    out.clear_error();
    runtime::failIo("cannot write {}: {}", path, message);
  }

  // What --freeze and --train did, where one of them was given.
  void tellFrozen() {
    if (options.import.freeze.empty() && options.import.train.empty())
      return;
    int64_t parameters = 0, values = 0, frozen = 0, frozenValues = 0;
    for (auto parameter : branches[0].module->getOps<ParameterOp>()) {
      if (parameter.isStatistic())
        continue;
      const int64_t size = parameter.getTensorType().getNumElements();
      ++parameters;
      values += size;
      frozen += !parameter.getTrained();
      frozenValues += parameter.getTrained() ? 0 : size;
    }
    llvm::errs() << "msampc: frozen: " << frozen << " of " << parameters << " parameters, " << frozenValues << " of "
                 << values << " values\n";
  }

  void writePlan() {
    codegen::PlanOptions plan;
    plan.compiler = version;
    plan.pipeline = llvm::join(phaseNames(), ",");
    plan.referenceKernels = options.referenceKernels;
    plan.weights = weights;
    plan.cancelled = [] { return interrupted != 0; };
    std::string compiled; // target whose kernels are being compiled
    plan.compiling = [&](const std::string &target) {
      if (!compiled.empty())
        progress.finish();
      startPhase("codegen", compiled = target);
    };
    std::signal(SIGINT, interrupt);
    std::signal(SIGTERM, interrupt);
    std::vector<codegen::TargetModule> modules;
    for (Branch &branch : branches)
      modules.push_back({branch.target, *branch.module});
    plan::Plan written = codegen::writePlan(modules, options.output, plan);
    progress.finish();
    tellFrozen();
    if (options.memoryRanks > 0)
      showMemory(written);
  }

  void showMemory(const plan::Plan &plan) {
    for (const plan::Target &target : plan.targets()) {
      std::vector<runtime::RoleBytes> ranks;
      for (unsigned rank = 0; rank < options.memoryRanks; ++rank)
        ranks.push_back(runtime::memoryOfRank(plan, target, rank, options.memoryRanks));
      if (plan.targets_size() > 1)
        std::cout << "target " << target.name() << "\n";
      std::cout << monitor::memoryTable(ranks);
    }
    if (!std::cout.flush())
      runtime::failIo("cannot write the memory table to standard output");
  }

  Options &options;
  // These two outlive the context, whose remarks read the one and set the other.
  std::string remarksOf; // target, where there are several and one is at work
  bool remarksBroken = false;
  MLIRContext context;
  DiagnosticPrinter diagnostics;
  Progress progress;
  std::vector<Branch> branches;
  std::shared_ptr<ParameterValues> weights;
};

int report(int code, const std::string &message) {
  std::cerr << "msampc: error: " << message << std::endl;
  return code;
}

} // namespace

int compile(Options options) {
  try {
    Compilation(options).run();
    return 0;
  } catch (const Reported &e) {
    return e.exitCode;
  } catch (const frontend::Error &e) {
    return report(e.exitCode, e.what());
  } catch (const runtime::Error &e) {
    return report(e.exitCode(), e.what());
  } catch (const std::bad_alloc &) {
    return report(static_cast<int>(runtime::Exit::TryAgain), "out of memory; free some, or compile a smaller batch");
  } catch (const std::exception &e) {
    return report(frontend::kInternal, std::string("internal error: ") + e.what());
  }
}

} // namespace msamp::msampc
