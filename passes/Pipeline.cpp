// Order and content of the phases. A phase of another folder is wired through its `buildPipeline`.
#include "passes/Pipeline.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/fuse/Passes.h"
#include "passes/loss/Passes.h"
#include "passes/optimizer/Passes.h"
#include "passes/partition/Passes.h"
#include "passes/precision/Passes.h"
#include "passes/raise/Passes.h"
#include "passes/recompute/Passes.h"
#include "passes/schedule/Passes.h"
#include "passes/verify/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;

namespace msamp {

static void buildLoss(OpPassManager &pm, const PipelineOptions &options) {
  loss::buildPipeline(pm, options);
  pm.addPass(schedule::createNoteInputBounds());
}

ArrayRef<Phase> phases() {
  static const Phase table[] = {
      {"import", {"--dim", "--init", "--freeze", "--train", "--batch-norm"}, nullptr},
      {"raise", {}, raise::buildPipeline},
      {"loss", {"--loss", "--labels"}, buildLoss},
      {"autodiff", {}, autodiff::buildPipeline},
      {"recompute", {"--recompute"}, recompute::buildPipeline},
      {"precision", {"--level", "--recipe", "--margin", "--fp8-head", "--accumulate"}, precision::buildPipeline},
      {"partition", {"--zero", "--bucket"}, partition::buildPipeline},
      {"optimizer", {"--optimizer"}, optimizer::buildPipeline},
      {"fuse", {"--loss-chunk", "--fp8-layout"}, fuse::buildPipeline},
      {"schedule", {}, schedule::buildPipeline},
      {"codegen", {"--reference-kernels"}, nullptr},
  };
  return table;
}

ArrayRef<StringRef> phaseNames() {
  static const auto names = llvm::map_to_vector<16>(phases(), [](const Phase &phase) { return phase.name; });
  return names;
}

bool dependsOnTarget(StringRef phase) {
  return phase == "fuse" || phase == "schedule" || phase == "codegen";
}

void buildPhase(OpPassManager &pm, StringRef phase, const PipelineOptions &options) {
  const Phase *found = llvm::find_if(phases(), [&](const Phase &each) { return each.name == phase; });
  if (found != phases().end() && found->build)
    found->build(pm, options);
  verify::VerifyPhaseOptions check;
  check.phase = phase.str();
  pm.addPass(verify::createVerifyPhase(check));
}

namespace {

// The options of a phase on the command line of msamp-opt.
struct PhaseOptions : PassPipelineOptions<PhaseOptions> {
  PipelineOptions defaults;
  Option<std::string> level{*this, "level", llvm::cl::init(defaults.level)};
  Option<std::string> recipe{*this, "recipe", llvm::cl::init(defaults.recipe)};
  ListOption<int64_t> margins{*this, "margins"};
  Option<bool> fp8Head{*this, "fp8-head", llvm::cl::init(defaults.fp8Head)};
  Option<std::string> optimizer{*this, "optimizer", llvm::cl::init(defaults.optimizer)};
  Option<std::string> loss{*this, "loss", llvm::cl::init(defaults.loss)};
  Option<std::string> labels{*this, "labels", llvm::cl::init(defaults.labels)};
  Option<std::string> recompute{*this, "recompute", llvm::cl::init(defaults.recompute)};
  Option<int64_t> zero{*this, "zero", llvm::cl::init(defaults.zero)};
  Option<int64_t> accumulate{*this, "accumulate", llvm::cl::init(defaults.accumulate)};
  Option<int64_t> bucketMiB{*this, "bucket-mib", llvm::cl::init(defaults.bucketMiB)};
  Option<int64_t> lossChunkMiB{*this, "loss-chunk-mib", llvm::cl::init(defaults.lossChunkMiB)};
  Option<std::string> target{*this, "target", llvm::cl::init(defaults.target)};
  Option<std::string> fp8Layout{*this, "fp8-layout", llvm::cl::init(defaults.fp8Layout)};

  PipelineOptions read() const {
    PipelineOptions options;
    options.level = level;
    options.recipe = recipe;
    for (auto [margin, value] : llvm::zip(options.margins, margins))
      margin = value;
    options.fp8Head = fp8Head;
    options.optimizer = optimizer;
    options.loss = loss;
    options.labels = labels;
    options.recompute = recompute;
    options.zero = zero;
    options.accumulate = accumulate;
    options.bucketMiB = bucketMiB;
    options.lossChunkMiB = lossChunkMiB;
    options.target = target;
    options.fp8Layout = fp8Layout;
    return options;
  }
};

// Each phase as one pipeline, `msamp-phase-NAME`.
void registerPhases() {
  for (StringRef phase : phaseNames().drop_front().drop_back()) {
    std::string name = ("msamp-phase-" + phase).str(), what = ("all passes of the phase " + phase).str();
    PassPipelineRegistration<PhaseOptions>(
        name, what, [phase](OpPassManager &pm, const PhaseOptions &options) { buildPhase(pm, phase, options.read()); });
  }
}

} // namespace

void registerAllPasses() {
  registerPhases();
  registerTransformsPasses();
  raise::registerraisePasses();
  loss::registerlossPasses();
  autodiff::registerautodiffPasses();
  recompute::registerrecomputePasses();
  verify::registerverifyPasses();
  precision::registerprecisionPasses();
  partition::registerpartitionPasses();
  optimizer::registeroptimizerPasses();
  fuse::registerfusePasses();
  schedule::registerschedulePasses();
}

} // namespace msamp
