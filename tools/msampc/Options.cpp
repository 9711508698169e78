// Flags of msampc, their defaults and their checks.
#include "tools/msampc/Options.h"

#include "codegen/cuda/Target.h"
#include "tools/common/ParseError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>
#include <re2/re2.h>

#include <cmath>
#include <iostream>
#include <set>

namespace msamp::msampc {
namespace {

constexpr int usage = 64;

std::string joined(llvm::ArrayRef<llvm::StringRef> names, llvm::StringRef separator) {
  return llvm::join(names, separator);
}

void checkRegex(const std::string &flag, const std::string &text) {
  const RE2 regex(text, RE2::Quiet);
  if (!regex.ok())
    throw CLI::ValidationError(flag, "'" + text + "' is no regular expression: " + regex.error());
  if (text.empty())
    throw CLI::ValidationError(flag, "the regular expression is empty; '.' matches every name");
}

void parseDim(const std::string &text, std::map<std::string, int64_t> &dims) {
  size_t equals = text.rfind('=');
  int64_t size = 0;
  if (equals == std::string::npos || equals == 0 || llvm::StringRef(text).substr(equals + 1).getAsInteger(10, size) ||
      size < 1)
    throw CLI::ValidationError("--dim", "'" + text + "' is not NAME=SIZE with a size of at least 1");
  auto [known, added] = dims.insert({text.substr(0, equals), size});
  if (!added && known->second != size)
    throw CLI::ValidationError("--dim", known->first + " is given as " + std::to_string(known->second) + " and as " +
                                            std::to_string(size));
}

void parseInit(const std::string &text, std::optional<double> &stddev) {
  if (text == "from-model")
    return;
  double value = 0;
  llvm::StringRef number(text);
  if (!number.consume_front("normal:") || number.getAsDouble(value) || !std::isfinite(value) || value < 0)
    throw CLI::ValidationError("--init",
                               "'" + text + "' is neither from-model nor normal:S with a standard deviation S");
  stddev = value;
}

// A number for all kinds of sites, or KIND=N,...
void parseMargin(const std::string &text, std::array<int64_t, 3> &margins) {
  constexpr llvm::StringRef kinds[] = {"activation", "gradient", "weight-gradient"}; // by SiteKind
  constexpr int64_t most = 8;
  auto fail = [&](const std::string &why) {
    throw CLI::ValidationError("--margin", "'" + text + "' " + why + "; give N, or activation=N,gradient=N,weight-gradient=N, " +
                                               "with N from 0 to " + std::to_string(most));
  };
  auto number = [&](llvm::StringRef digits) {
    int64_t value = 0;
    if (digits.getAsInteger(10, value) || value < 0 || value > most)
      fail("has '" + digits.str() + "' where a number should be");
    return value;
  };
  if (!llvm::StringRef(text).contains('='))
    return margins.fill(number(text));
  llvm::SmallVector<llvm::StringRef> parts;
  llvm::StringRef(text).split(parts, ',');
  std::set<llvm::StringRef> seen;
  for (llvm::StringRef part : parts) {
    auto [name, digits] = part.split('=');
    auto kind = llvm::find(kinds, name);
    if (kind == std::end(kinds))
      fail("names '" + name.str() + "', which is no kind of delayed scale");
    if (!seen.insert(name).second)
      fail("names " + name.str() + " twice");
    margins[static_cast<size_t>(kind - std::begin(kinds))] = number(digits);
  }
}

// A,B,...: each a device that there are kernels for, once.
std::vector<std::string> parseTargets(const std::string &text) {
  const llvm::ArrayRef<llvm::StringRef> known = codegen::cuda::Target::names();
  const std::string all = "; there are cpu, " + joined(known, ", ");
  std::vector<std::string> targets;
  llvm::SmallVector<llvm::StringRef> names;
  llvm::StringRef(text).split(names, ',');
  for (llvm::StringRef name : names) {
    if (name != "cpu" && !llvm::is_contained(known, name))
      throw CLI::ValidationError("--target", "'" + name.str() + "' is no target" + all);
    if (llvm::is_contained(targets, name))
      throw CLI::ValidationError("--target", "'" + text + "' names " + name.str() + " twice" + all);
    targets.push_back(name.str());
  }
  return targets;
}

// MODEL is past the phases up to --compile-from: what their flags say would be ignored.
void checkPhases(const CLI::App &app, llvm::StringRef compileFrom) {
  for (const Phase &phase : compileFrom.empty() ? llvm::ArrayRef<Phase>() : phases()) {
    for (llvm::StringRef flag : phase.flags)
      if (app.count(flag.str()) > 0)
        throw CLI::ValidationError(flag.str(),
                                   "the phase " + phase.name.str() +
                                       " reads it, which MODEL has behind it with --compile-from=" + compileFrom.str() +
                                       "; give it to the msampc that writes MODEL, or leave it away");
    if (phase.name == compileFrom)
      return;
  }
}

// Levels without FP8 have nothing that these flags could change.
void checkLevel(const CLI::App &app, const std::string &level) {
  for (const char *flag : {"--recipe", "--margin", "--fp8-head"})
    if (app.count(flag) > 0 && level.front() != 'O')
      throw CLI::ValidationError(flag, "level " + level + " has no FP8 GEMMs; take O1, O2 or O3, or leave it away");
}

// The number of --memory stands behind a "=" alone: behind a space it would be taken for MODEL.
void checkMemory(int argc, char **argv) {
  for (int i = 1; i + 1 < argc; ++i) {
    llvm::StringRef next = argv[i + 1];
    if (llvm::StringRef(argv[i]) == "--memory" && !next.empty() && llvm::all_of(next, llvm::isDigit))
      throw CLI::ValidationError("--memory", "the number of ranks is given as --memory=" + next.str());
  }
}

void checkLoss(const std::string &text) {
  if (text == "cross-entropy" || text == "mse" || text == "bce")
    return;
  if (text.rfind("output:", 0) == 0 && text.size() > 7)
    return;
  throw CLI::ValidationError("--loss", "'" + text + "' is none of cross-entropy, mse, bce, output:NAME");
}

} // namespace

std::variant<Options, int> parseOptions(int argc, char **argv) {
  Options o;
  std::vector<std::string> dims;
  std::string init = "from-model", batchNorm = "exported", margin = "0", targets = "cpu";
  PipelineOptions &p = o.pipeline;
  std::vector<std::string> phases;
  for (llvm::StringRef phase : phaseNames())
    phases.push_back(phase.str());

  CLI::App app{"Compiles the training step of an ONNX model: forward, backward, gradient exchange and optimizer,\n"
               "with FP8 in compute, storage and communication, into a plan that msamp-run executes.",
               "msampc"};
  app.get_formatter()->column_width(38);
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", version);
  app.add_option("MODEL", o.input, "ONNX model; an MLIR file with --compile-from")->required()->type_name("");
  app.add_option("-o,--output", o.output,
                 "directory of the plan; with --compile-to the MLIR file, standard output by default")
      ->type_name("PLAN");
  app.add_option("--level", p.level, "precision level: fp32, bf16, O1, O2 or O3")
      ->check(CLI::IsMember({"fp32", "bf16", "O1", "O2", "O3"}))
      ->type_name("LEVEL");
  app.add_option("--target", targets,
                 "devices to compile for, each once: cpu, " + joined(codegen::cuda::Target::names(), ", ") +
                     " (NVIDIA GPUs); msamp-run takes what fits")
      ->type_name("TARGET,..");
  app.add_option("--loss", p.loss,
                 "cross-entropy (classes along the last axis), mse or bce of the first output; or output:NAME")
      ->type_name("LOSS");
  app.add_option("--labels", p.labels, "name of the extra input with the targets")->type_name("NAME");
  app.add_option("--dim", dims, "size of a symbolic dimension of the model; repeat for each")
      ->allow_extra_args(false)
      ->type_name("NAME=SIZE");
  app.add_option("--recipe", p.recipe, "FP8 scaling: delayed, current, rowwise or block (1x128, weights 128x128)")
      ->check(CLI::IsMember({"delayed", "current", "rowwise", "block"}))
      ->type_name("RECIPE");
  app.add_option("--margin", margin,
                 "powers of two that delayed scales stay below the format's range, 0 to 8: for all tensors, or "
                 "activation=N,gradient=N,weight-gradient=N (those not named: 0)")
      ->type_name("N|KIND=N,..");
  app.add_flag("--fp8-head", p.fp8Head,
               "FP8 GEMMs for the head, too (O1 to O3); its weights are stored as other matrices are, or in BF16 where they "
               "are the table of lookups as well")
      ->default_str("off");
  app.add_option("--optimizer", p.optimizer, "adamw, adam or sgd")
      ->check(CLI::IsMember({"adamw", "adam", "sgd"}))
      ->type_name("NAME");
  app.add_option("--init", init, "initial weights: from-model, or normal:S for N(0, S)")->type_name("INIT");
  app.add_option("--freeze", o.import.freeze,
                 "do not train parameters whose ONNX name matches (anywhere in it; RE2's syntax)")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  app.add_option("--train", o.import.train,
                 "train initializers whose ONNX name matches, also those that --freeze matches, and those that are no "
                 "parameters by their use")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  app.add_option("--batch-norm", batchNorm,
                 "exported: a BatchNormalization normalises as the model says; batch: by its micro-batch, and its "
                 "running statistics follow, as in training, whatever the model says")
      ->check(CLI::IsMember({"exported", "batch"}))
      ->type_name("BY");
  app.add_option("--accumulate", p.accumulate,
                 "micro-batches of a rank in one step; from 2 on gradients add up in FP32, 4 bytes a parameter")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  app.add_option("--recompute", p.recompute, "activations rebuilt in the backward: none, selective or full")
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->type_name("MODE");
  app.add_option("--zero", p.zero, "ZeRO stage, what ranks share: 0 nothing, 1 optimizer state")
      ->check(CLI::Range(0, 1))
      ->type_name("STAGE");
  app.add_option("--bucket", p.bucketMiB, "size of the gradient buckets that are exchanged together")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("MIB");
  app.add_option("--loss-chunk", p.lossChunkMiB, "logits that are in memory at once; 0: those of all tokens")
      ->check(CLI::Range(0, 1 << 20))
      ->type_name("MIB");
  app.add_option("--fp8-layout", p.fp8Layout,
                 "layout of FP8 GEMM operands: what the target wants, or tn (the summed dimension innermost)")
      ->check(CLI::IsMember({"target", "tn"}))
      ->type_name("LAYOUT");
  app.add_flag("--memory{1}", o.memoryRanks, "print the bytes of each role for each of R ranks (--memory=R; R 1)")
      ->check(CLI::Range(1u, 1u << 16))
      ->default_str("off");
  app.add_flag("--reference-kernels", o.referenceKernels,
               "with a GPU target, also write the CPU's kernels, for msamp-kernel-check")
      ->default_str("off");
  app.add_option("--compile-from", o.compileFrom, "MODEL is MLIR as it is after this phase; go on from there. From fuse on a module is of one "
                 "target: with several, X.mlir stands for X.TARGET.mlir of each, here as with --compile-to")
      ->check(CLI::IsMember(phases))
      ->type_name("PHASE");
  app.add_option("--compile-to", o.compileTo, "stop after this phase and write MLIR")
      ->check(CLI::IsMember(phases))
      ->type_name("PHASE");
  app.add_option("--dump-phases", o.dumpPhases, "write the MLIR after each phase into this directory")
      ->type_name("DIR");
  app.add_option("--remarks", o.remarks, "write what was done and what was missed, and why; - for standard output")
      ->type_name("FILE");
  app.footer("Phases: " + joined(phaseNames(), ", ") +
             ".\nExit codes: 64 usage, 65 bad data, 70 internal error, 74 input or output, 75 try again.");

  try {
    checkMemory(argc, argv);
    app.parse(argc, argv);
    for (const std::string &dim : dims)
      parseDim(dim, o.import.dims);
    parseInit(init, o.import.initStddev);
    o.import.batchStatistics = batchNorm == "batch";
    parseMargin(margin, p.margins);
    o.targets = parseTargets(targets);
    checkLoss(p.loss);
    checkPhases(app, o.compileFrom);
    checkLevel(app, p.level);
    if (p.labels.empty()) throw CLI::ValidationError("--labels", "the input with the targets needs a name");
    for (const std::string &text : o.import.freeze)
      checkRegex("--freeze", text);
    for (const std::string &text : o.import.train)
      checkRegex("--train", text);
    auto position = [&](const std::string &phase) { return llvm::find(phases, phase) - phases.begin(); };
    if (o.compileTo == "codegen")
      o.compileTo.clear();
    if (!o.compileFrom.empty() && !o.compileTo.empty() && position(o.compileFrom) > position(o.compileTo))
      throw CLI::ValidationError("--compile-to", o.compileTo + " comes before " + o.compileFrom);
    if (o.compileFrom == "codegen")
      throw CLI::ValidationError("--compile-from", "nothing comes after codegen");
    if (!o.compileTo.empty() && dependsOnTarget(o.compileTo) && o.targets.size() > 1 && (o.output.empty() || o.output == "-"))
      throw CLI::ValidationError("-o", "after " + o.compileTo + " there is a module for each of " + std::to_string(o.targets.size()) +
                                           " targets: give -o FILE.mlir, and FILE.TARGET.mlir is written for each");
    if (o.referenceKernels && o.targets == std::vector<std::string>{"cpu"})
      throw CLI::ValidationError("--reference-kernels", "wants a GPU among the targets: those of cpu are the reference");
    if (o.compileTo.empty() && o.output.empty())
      throw CLI::ValidationError("-o", "where to write the plan is missing: give -o PLAN");
    if (o.compileTo.empty() && o.output == "-")
      throw CLI::ValidationError("-o", "a plan is a directory and cannot go to standard output");
  } catch (const CLI::CallForHelp &e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion &e) {
    return app.exit(e);
  } catch (const CLI::ParseError &e) {
    std::cerr << "msampc: error: " << tools::messageOf(app, e) << "\nRun msampc --help for all flags.\n";
    return usage;
  }
  return o;
}

} // namespace msamp::msampc
