// Values of a cluster's body in one thread: what they are at a row and a chunk of columns, each computed once.
#ifndef MSAMP_CODEGEN_CUDA_VALUES_H
#define MSAMP_CODEGEN_CUDA_VALUES_H

#include "codegen/cuda/CudaBuilder.h"
#include "codegen/cuda/Schedule.h"

namespace msamp::codegen::cuda {

// The columns at which a thread is: its chunks, `step` apart. Chunks that may lie behind the end of the row have a
// condition; their position is clamped then, so that loading is allowed.
struct Columns {
  llvm::SmallVector<mlir::Value> at, active;
  int64_t step = 0;
};

// One row in a thread. Rows that are not there are clamped too, and have a condition.
struct Row {
  mlir::Value index, active;
  llvm::DenseMap<int, mlir::Value> leaves;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;                    // the same along the row
  llvm::SmallVector<llvm::DenseMap<mlir::Value, mlir::Value>> vectors; // by chunk
  llvm::DenseMap<const fuse::View *, mlir::Value> offsets, leads;      // of views: of the row, of the first chunk
  llvm::DenseMap<mlir::Value, mlir::Value> copies;                     // of views: where in shared memory they are
};

class Values {
public:
  Values(CudaBuilder &k, ClusterOp cluster, const Schedule &s);

  // To be set before anything is asked for: the kernel's pointers and an operation before which to put what is the same
  // everywhere.
  llvm::DenseMap<mlir::Value, mlir::Value> pointers;
  llvm::SmallVector<mlir::Value> outputs;
  mlir::Value workspace;
  mlir::Operation *prologue = nullptr;
  Columns columns;
  // Where views are held in shared memory, and the stage that puts them there.
  struct Held {
    mlir::Value buffer;
    int stage;
  };
  llvm::DenseMap<mlir::Value, Held> held;
  int stage = 0; // that is emitted

  Row row(mlir::Value index, mlir::Value active);
  // Forgets what depends on the columns, which have moved.
  void newColumns(Row &row);

  // Starts copying the held views of a row to where its copies are to be, at the columns.
  void copyRow(Row &row);
  void copy(Row &row, mlir::Value view, mlir::Value buffer);
  // What a row loads, unless it repeats over rows; in a fixed order, as values to hand on.
  void loadRow(Row &row);
  llvm::SmallVector<mlir::Value> loaded(Row &row);
  void setLoaded(Row &row, mlir::ValueRange values);
  // Loads what repeats over rows once for all.
  void loadColumns();

  mlir::Value scalar(Row &row, mlir::Value v);
  mlir::Value vector(Row &row, mlir::Value v, int64_t chunk);
  // Sums along the row of which all values but one are zeros: those whose column is not the one that a value of the row
  // names. They take a load, not a loop.
  bool isPick(mlir::Operation *reduction) const;
  // The value of a row that a comparison asks the numbers of its columns for; null if `op` is no such comparison.
  mlir::Value naming(mlir::Operation *op) const;
  mlir::Value picked(Row &row, mlir::Operation *reduction);
  mlir::Value pointer(Row &row, const fuse::View &view, mlir::Value base, mlir::Type element, int64_t chunk);
  mlir::Value rowPointer(Row &row, const fuse::View &view, mlir::Value base, mlir::Type element);
  // Loads or stores a chunk of a view at its pointer.
  mlir::Value loadAt(mlir::Value at, const fuse::View &view, mlir::Type element);
  void storeAt(mlir::Value value, mlir::Value at, const fuse::View &view, mlir::Type element);
  // Computes where all views of the row start, so that what follows may be in loops.
  void placeRow(Row &row);

  int64_t width() const { return s.chunk > 1 && !single ? s.chunk : 0; }
  bool isFull(mlir::Value v) const { return s.domain.isFull(v); }
  mlir::Operation *definition(mlir::Value v) const;

private:
  bool dependsOnRow(mlir::Value view) const;
  mlir::Value canonical(mlir::Value view) const;
  mlir::Value offset(Row &row, const fuse::View &view);
  mlir::Value loadVector(Row &row, mlir::Value view, int64_t chunk);
  mlir::Value fromBits(mlir::Value bits, mlir::Type element);
  mlir::Value loadCopied(mlir::Value buffer, mlir::Value view, int64_t chunk);
  mlir::Value loadHeld(Row &row, mlir::Value view, int64_t chunk, const Held &place);
  mlir::Value loadScalar(Row &row, mlir::Value view);
  mlir::Value iota(Row &row, IotaOp op, int64_t chunk, bool full);
  mlir::Value namedColumn(Row &row, mlir::Value name);
  mlir::Value isNamedColumn(Row &row, mlir::Value name, int64_t chunk);
  mlir::arith::SelectOp ofNamed(mlir::Value v) const;
  bool takesFromNamed(mlir::Operation *op) const;
  mlir::Value takeFromNamed(Row &row, mlir::Operation *op, int64_t chunk);
  int64_t extent(const fuse::View &view) const;

  CudaBuilder &k;
  mlir::Block &body;
  const Schedule &s;
  llvm::SmallVector<mlir::Value> rowLoads, columnLoads;
  llvm::DenseMap<mlir::Value, mlir::Value> constants; // the same everywhere
  bool single = false;                                // one column is at work, not chunks
  llvm::SmallVector<llvm::DenseMap<mlir::Value, mlir::Value>> kept;
};

} // namespace msamp::codegen::cuda

#endif
