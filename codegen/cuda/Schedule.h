// How the threads of a GPU share the loop nest of a cluster.
#ifndef MSAMP_CODEGEN_CUDA_SCHEDULE_H
#define MSAMP_CODEGEN_CUDA_SCHEDULE_H

#include "codegen/cuda/Target.h"
#include "passes/fuse/ClusterDomain.h"

namespace msamp::codegen::cuda {

// A thread handles `chunks` chunks of `chunk` consecutive values of a row, `lanes` threads (a team) a row or a tile of
// a row, `teams` teams a block. A block stands for a tile of columns and a group of rows: its teams walk over the rows
// of the group, `rowsAtOnce` a step. Rows of a group are `groups * teams` apart, so that blocks read next to each
// other; with OuterColumn reductions the group is the rows that are summed.
struct Schedule {
  fuse::ClusterDomain domain;
  int64_t inner = 1; // length of a row
  int64_t chunk = 1, chunks = 1, lanes = 1, teams = 1, tiles = 1, groups = 1, rowsAtOnce = 1;
  bool streamed = false; // a row does not fit in registers: each stage reads it again, in loops
  bool prefetch = false; // the next rows are loaded before the current ones are used
  // Some results are stored with rows innermost: the rows of a step follow each other, and go through shared memory.
  bool turned = false;
  // Blocks go over rows, or over tiles of a single row, until there are no more: not all equally often.
  bool walks = false;
  int64_t blocksAlongRows = 1; // so many groups follow each other before the next tile of columns
  // With reductions of rows: a block stages so many rows of those results before it stores them; 0: there are none.
  int64_t stagedRows = 0;
  // Of streamed rows: what several stages read is kept in shared memory by the first of them, at its column.
  llvm::SmallVector<mlir::Value> held;
  // Held views are copied to shared memory for the next rows while the current ones are at work; each thread waits for
  // its own copies alone.
  bool ahead = false;
  llvm::SmallVector<mlir::Value> heldColumns; // what repeats over rows, then: copied once, behind the rows
  bool keepColumns = false;                   // what repeats over rows is loaded once
  int64_t blocksPerMultiprocessor = 0;        // lower bound that limits registers; 0: none

  int64_t block() const { return (lanes * teams + 31) / 32 * 32; }
  int64_t grid() const { return tiles * groups; }
  int64_t tileWidth() const { return lanes * chunk * chunks; }
  bool has(fuse::ReductionKind kind) const;
  // Rows that a group walks over, and how many there are between two of a team.
  int64_t rowLimit() const { return byUnit() && !walksUnits() ? domain.reducedRows : domain.rows; }
  int64_t rowStride() const { return byUnit() ? teams : groups * teams; }
  int64_t steps() const; // at most
  // With OuterColumn reductions: whether groups go over the rows of several units, one after the other. Unit `groups`
  // further on is the next.
  bool walksUnits() const { return byUnit() && groups < units(); }
  int64_t units() const { return domain.rows / domain.reducedRows; }
  int64_t unitSteps() const { return domain.reducedRows / (teams * rowsAtOnce); }
  // Whether all rows of all steps of a block are there, though blocks have not equally many steps: one for each of its
  // shares, of which there are `shares` in all and share `groups` further on is its next.
  bool evenSteps() const;
  int64_t shares() const { return walksUnits() ? units() : domain.rows / (stagedRows ? stagedRows : teams); }
  int64_t shareSteps() const { return walksUnits() ? unitSteps() : stagedRows ? stagedRows / (teams * rowsAtOnce) : 1; }
  bool isTurned(const fuse::View &store) const;
  bool byUnit() const { return has(fuse::ReductionKind::OuterColumn); }

  // Results with rows innermost, and bytes of shared memory that a column of one takes where it is staged.
  llvm::SmallVector<fuse::ClusterDomain::Store> turnedStores(ClusterOp cluster) const;
  int64_t stagedPitch() const { return stagedRows + 4; } // an odd number of words
  // Dynamic shared memory of a block.
  int64_t sharedBytes(ClusterOp cluster) const;
  int64_t stagedBytes(ClusterOp cluster) const;
  int64_t heldBytes(mlir::Value view) const;
  int64_t heldRowBytes() const;                                              // of all views of a row
  int64_t aheadBytes() const { return teams * rowsAtOnce * heldRowBytes(); } // of the rows of a step
  // Whether asynchronous copies can move chunks of the view.
  bool isCopyable(mlir::Value view) const;
  // The rows of a step that a thread has follow each other.
  bool neighbouringRows() const { return turned || stagedRows; }
  // The first and the last stage that read a view.
  std::pair<int, int> stagesOf(mlir::Value view, ClusterOp cluster) const;

  // Whether results over rows are partial ones; a single group has the sums of columns themselves.
  bool isPartial(fuse::ReductionKind kind) const {
    return kind == fuse::ReductionKind::Scalar || kind == fuse::ReductionKind::RowScalar ||
           (kind == fuse::ReductionKind::Column && (groups > 1 || streamed));
  }
  // FP32 values in the workspace: where the partial results of a reduction start, and how many there are in all.
  int64_t partialOffset(mlir::Operation *reduction) const;
  int64_t partialValues() const;

  // The reductions in the order of the cluster, without those over sizes of 1.
  llvm::SmallVector<std::pair<mlir::Operation *, fuse::ReductionKind>> reductions;
  // Views that the body reads elements of, and for each the first one of the same elements.
  llvm::SmallVector<mlir::Value> loads;
  llvm::DenseMap<mlir::Value, mlir::Value> representatives;
};

// The largest power of two up to `most` by which all rows of the view are aligned, in elements.
int64_t alignmentOf(const fuse::View &view, int inner, int64_t most);

mlir::FailureOr<Schedule> scheduleCluster(ClusterOp cluster, const Target &target, std::string *why = nullptr);

} // namespace msamp::codegen::cuda

#endif
