// The phases of the compiler in order, and the passes that each of them runs.
#ifndef MSAMP_PASSES_PIPELINE_H
#define MSAMP_PASSES_PIPELINE_H

#include "passes/raise/ParameterValues.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace msamp {

class ClusterOp;
namespace schedule {
struct KernelShape;
}

/// What the command line says about the step; the defaults are those of `msampc --help`.
struct PipelineOptions {
  std::string level = "O2";               ///< fp32, bf16, O1, O2 or O3
  std::string recipe = "delayed";         ///< delayed, current, rowwise or block
  bool fp8Head = false;                   ///< the GEMMs of the head are FP8, too
  std::string optimizer = "adamw";        ///< adamw, adam or sgd
  std::string loss = "cross-entropy";     ///< cross-entropy, mse, bce or output:NAME
  std::string labels = "labels";          ///< name of the input with the targets
  std::string recompute = "selective";    ///< none, selective or full
  /// Powers of two that delayed scales stay below the format's range, by SiteKind.
  std::array<int64_t, 3> margins = {0, 0, 0};
  int64_t zero = 0;                       ///< ZeRO stage: 0 or 1
  int64_t accumulate = 1;                 ///< micro-batches a step
  int64_t bucketMiB = 32;                 ///< gradient bytes a bucket
  int64_t lossChunkMiB = 512;             ///< logits at most in memory at once; 0: all
  std::string target = "cpu";             ///< cpu, or an NVIDIA architecture; see dependsOnTarget
  std::string fp8Layout = "target";       ///< tn: as Hopper's GEMM wants FP8 operands, whatever the target
  /// Opens the values of the model's initializers.
  OpenParameterValues parameterValues;
  /// How the target cuts a cluster into chunks; null: kernels of one chunk without workspace.
  std::function<schedule::KernelShape(ClusterOp)> kernelShape;
};

/// A point at which a compilation can stop and go on.
struct Phase {
  llvm::StringRef name;
  /// The flags of msampc that it reads. What they say is in the module that it leaves: later phases read it there.
  std::vector<llvm::StringRef> flags;
  /// Adds its passes; null for what runs outside of pass managers.
  void (*build)(mlir::OpPassManager &pm, const PipelineOptions &options);
};

/// import, raise, loss, autodiff, recompute, precision, partition, optimizer, fuse, schedule, codegen.
llvm::ArrayRef<Phase> phases();
llvm::ArrayRef<llvm::StringRef> phaseNames();

/// Whether what a phase leaves depends on PipelineOptions::target: from `fuse` on. What it does to state (types, layout,
/// exchange) is settled before, so that a training goes on on another target.
bool dependsOnTarget(llvm::StringRef phase);

/// Adds the passes of a phase, and the verifier of its contract as the last one.
void buildPhase(mlir::OpPassManager &pm, llvm::StringRef phase, const PipelineOptions &options);

/// Registers the passes of all phases under their command-line names.
void registerAllPasses();

} // namespace msamp
#endif
