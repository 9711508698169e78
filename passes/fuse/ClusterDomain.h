// The iteration domain of a cluster: how the dimensions of all its tensors map onto one loop nest, and whether they do.
#ifndef MSAMP_PASSES_FUSE_CLUSTERDOMAIN_H
#define MSAMP_PASSES_FUSE_CLUSTERDOMAIN_H

#include "ir/Msamp/Msamp.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

#include <string>

namespace msamp::fuse {

// True for ops that a cluster may hold.
bool isFusible(mlir::Operation *op);
// True for ops of next to no computation that consumers clone: views, broadcasts, splats, iota, widening of a stored
// type, magnitudes, scalar math, and what says so itself (repeatedAttr).
bool isFree(mlir::Operation *op);
// True for reshape, transpose and slice, but for those that the attributes below take out.
bool isView(mlir::Operation *op);

// On a transpose: it is computed, its result is stored row-major. Within a cluster it is a store with other strides.
inline constexpr llvm::StringLiteral storedAttr = "msamp.stored";
bool isStoredTranspose(mlir::Operation *op);
// On a slice or a concat: it is a part of memory, which no kernel computes.
inline constexpr llvm::StringLiteral inMemoryAttr = "msamp.in_memory";
// Ops that differ in this number do not share a kernel.
inline constexpr llvm::StringLiteral chunkAttr = "msamp.chunk";

// Address of an element in a row-major buffer: offset + sum of strides[leaf] * index(leaf), in elements. Leaves that
// are absent repeat.
struct View {
  int64_t offset = 0;
  llvm::SmallVector<std::pair<int, int64_t>> strides;
  int64_t stride(int leaf) const;
};

enum class ReductionKind {
  Row,         // over the inner leaf; the result is known within the row
  Column,      // over all outer leaves, one value per inner index; partial sums a chunk
  OuterColumn, // over some outer leaves, which are innermost among the outer loops then
  Scalar,      // over everything
  RowScalar,   // of a value per row over all rows
};

// Leaves are the finest dimensions into which reshapes split the tensors' dimensions; sizes of 1 are dropped, leaves
// that always stand together are merged. The loop nest is `outer` (in order), then `inner`, which is vectorised.
struct ClusterDomain {
  llvm::SmallVector<int64_t> leafSize; // by leaf
  llvm::SmallVector<int> outer;        // kept leaves, then those of OuterColumn reductions
  int inner = -1;                      // -1: every tensor is a scalar
  bool across = false; // all rows are read across memory: from a transposed tensor
  int64_t rows = 1, reducedRows = 1;   // product of outer; of its last part that OuterColumn sums over
  llvm::DenseMap<mlir::Value, llvm::SmallVector<int>> leaves; // of each value, in row-major order
  llvm::DenseMap<mlir::Value, View> views;                    // of values that are read from inputs without computation
  llvm::DenseMap<mlir::Value, mlir::Value> viewBase;          // the input each view reads
  llvm::DenseMap<mlir::Value, int> stage;                     // number of row reductions before a value is known
  llvm::DenseMap<mlir::Operation *, ReductionKind> reductions;
  // Index along the dimension of an iota: (leaf, multiplier).
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<std::pair<int, int64_t>>> iotas;
  // Where each output, or each part of an output that is a concat, is stored.
  struct Store {
    mlir::Value value;
    View view;
  };
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Store>> stores;
  int stages = 1;

  bool isFull(mlir::Value v) const; // varies along the inner leaf
  bool hasPartials() const;         // chunk partials are to be summed in a finish
  int64_t chunks() const;

  // Analyses the ops (in order) as one cluster that stores `outputs`. On failure `why` says what does not fit.
  static mlir::FailureOr<ClusterDomain> analyze(llvm::ArrayRef<mlir::Operation *> ops,
                                                llvm::ArrayRef<mlir::Value> outputs, std::string *why = nullptr);
  static mlir::FailureOr<ClusterDomain> analyze(ClusterOp cluster, std::string *why = nullptr);
};

} // namespace msamp::fuse

#endif
