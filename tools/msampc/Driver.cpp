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
    if (!options.remarks.empty() && !enableRemarks(context, options.remarks, remarksBroken))
      throw Reported{frontend::kIo};
    if (!options.dumpPhases.empty())
      makeDumpFolder();
    auto target = codegen::cuda::Target::parse(options.pipeline.target);
    options.pipeline.kernelShape = [target](ClusterOp cluster) {
      codegen::KernelShape shape = codegen::cpuKernelShape(cluster);
      // On a GPU chunks and finish are those of the reference.
      if (target)
        shape.workspaceBytes = codegen::cuda::workspaceBytes(cluster, *target);
      return schedule::KernelShape{shape.chunks, shape.finish, shape.workspaceBytes};
    };
    // Where weights are drawn at random, equal values in the file say nothing.
    options.pipeline.parameterValues = [this]() -> std::shared_ptr<ParameterValues> {
      if (options.import.initStddev)
        return nullptr;
      return weights;
    };

    // A whole function says no more than the message and its node do.
    context.printOpOnDiagnostic(false);

    ArrayRef<StringRef> phases = phaseNames();
    size_t number = 0;
    if (options.compileFrom.empty()) {
      progress.start("import");
      module = frontend::importModel(options.input, options.import, context);
      if (failed(mlir::verify(*module)))
        throw Reported{frontend::kInternal};
      openWeights(options.input);
      finishPhase(number++);
      if (options.compileTo == "import")
        return writeModule();
    } else {
      parseModule();
      number = static_cast<size_t>(llvm::find(phases, options.compileFrom) - phases.begin()) + 1;
      if (options.compileFrom == options.compileTo)
        return writeModule();
    }
    for (; phases[number] != "codegen"; ++number) {
      progress.start(phases[number]);
      runPhase(phases[number]);
      finishPhase(number);
      if (options.compileTo == phases[number])
        return writeModule();
    }
    progress.start("codegen");
    writePlan();
    progress.finish();
  }

private:
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

  void parseModule() {
    std::error_code error;
    if (!fs::is_regular_file(options.input, error))
      runtime::failIo("cannot read {}: no such file", options.input);
    context.loadAllAvailableDialects();
    module = parseSourceFile<ModuleOp>(options.input, ParserConfig(&context));
    if (!module)
      throw Reported{frontend::kBadData};
    checkParsed();
    if (auto source = (*module)->getAttrOfType<StringAttr>("msamp.source"); source && !source.getValue().empty())
      openWeights(source.getValue().str());
  }

  // The file has to be what --compile-from says, or later phases would find nothing to do and make an empty plan.
  void checkParsed() {
    StringRef phase = options.compileFrom;
    StringRef function = "step";
    if (phase == "import" || phase == "raise" || phase == "loss")
      function = "forward";
    else if (phase == "optimizer" || phase == "fuse")
      function = "micro_step";
    else if (phase == "schedule")
      function = "";
    bool there = function.empty() ? (*module)->hasAttr("plan.inputs") : module->lookupSymbol(function) != nullptr;
    if (!there)
      runtime::failData("{} is no module as the {} phase leaves it (it has no {}); --compile-from has to name the phase "
                        "that wrote the file",
                        options.input, phase.str(), function.empty() ? "plan.inputs" : "function @" + function.str());
    PassManager manager(&context);
    verify::VerifyPhaseOptions check;
    check.phase = phase.str();
    manager.addPass(verify::createVerifyPhase(check));
    if (failed(manager.run(*module)))
      throw Reported{frontend::kBadData};
  }

  void runPhase(StringRef phase) {
    PassManager manager(&context);
    buildPhase(manager, phase, options.pipeline);
    if (succeeded(manager.run(*module)))
      return;
    if (diagnostics.errors() == 0)
      runtime::failInternal("phase {} failed and did not say why", phase.str());
    // Up to here it depends on the model whether a phase can do its work; from here on on what phases left.
    static constexpr StringRef onTheModel[] = {"raise", "loss", "autodiff", "recompute", "precision"};
    bool data = llvm::is_contained(onTheModel, phase) || !options.compileFrom.empty();
    throw Reported{data ? frontend::kBadData : frontend::kInternal};
  }

  void finishPhase(size_t number) {
    progress.finish();
    if (remarksBroken) runtime::failIo("cannot write remarks to {}: is the disk full?", options.remarks);
    if (options.dumpPhases.empty())
      return;
    std::string file = llvm::formatv("{0,0+2}.{1}.mlir", number + 1, phaseNames()[number]).str();
    print((fs::path(options.dumpPhases) / file).string());
  }

  void writeModule() { print(options.output.empty() ? "-" : options.output); }

  void print(const std::string &path) {
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    if (error)
      runtime::failIo("cannot write {}: {}", path, error.message());
    (*module)->print(out, OpPrintingFlags().enableDebugInfo());
    out << "\n";
    out.flush();
    if (!out.has_error())
      return;
    std::string message = out.error().message();
    out.clear_error();
    runtime::failIo("cannot write {}: {}", path, message);
  }

  void writePlan() {
    codegen::PlanOptions plan;
    plan.compiler = version;
    plan.pipeline = llvm::join(phaseNames(), ",");
    plan.loss = options.pipeline.loss;
    plan.target = options.pipeline.target;
    plan.referenceKernels = options.referenceKernels;
    plan.weights = weights;
    plan.cancelled = [] { return interrupted != 0; };
    std::signal(SIGINT, interrupt);
    std::signal(SIGTERM, interrupt);
    plan::Plan written = codegen::writePlan(*module, options.output, plan);
    if (options.memoryRanks == 0)
      return;
    std::vector<runtime::RoleBytes> ranks;
    for (unsigned rank = 0; rank < options.memoryRanks; ++rank)
      ranks.push_back(runtime::memoryOfRank(written, rank, options.memoryRanks));
    if (!(std::cout << monitor::memoryTable(ranks) << std::flush))
      runtime::failIo("cannot write the memory table to standard output");
  }

  Options &options;
  bool remarksBroken = false; // outlives the context, whose remarks set it
  MLIRContext context;
  DiagnosticPrinter diagnostics;
  Progress progress;
  OwningOpRef<ModuleOp> module;
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
