// The parts of a cluster's kernel, shared by the forms of schedule.
#ifndef MSAMP_CODEGEN_CUDA_CLUSTEREMITTER_H
#define MSAMP_CODEGEN_CUDA_CLUSTEREMITTER_H

#include "codegen/cuda/ClusterKernel.h"
#include "codegen/cuda/Values.h"

namespace msamp::codegen::cuda {

// Neighbouring columns of four rows, or of two -> these rows of each of the columns. `columns` 0: the rows are scalars.
llvm::SmallVector<mlir::Value> turnRows(CudaBuilder &k, llvm::ArrayRef<mlir::Value> rows, mlir::Type element,
                                        int64_t columns);

class ClusterEmitter {
public:
  ClusterEmitter(mlir::gpu::GPUModuleOp module, ClusterOp cluster, const Schedule &s, llvm::StringRef symbol);

  void run(llvm::SmallVectorImpl<KernelEntry> &entries);

private:
  using Reduction = std::pair<mlir::Operation *, fuse::ReductionKind>;
  struct Root { // something that a stage does with a value that varies along the row
    mlir::Value value;
    mlir::Operation *reduce = nullptr;
    fuse::ReductionKind kind = fuse::ReductionKind::Row;
    unsigned output = 0;
    const fuse::View *view = nullptr;
  };
  // Running results of a thread: of Scalar and RowScalar reductions one value, of the others by column one a chunk.
  using Running = llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>>;
  struct Item { // of a reduction over a team
    mlir::Operation *reduce;
    Row *row;
    mlir::Value value;
  };

  static ReduceKind kindOf(mlir::Operation *reduce);
  llvm::SmallVector<Root> rootsOf(int stage);
  unsigned outputOf(mlir::Operation *reduce);
  const fuse::View &storeOf(mlir::Operation *reduce);
  mlir::Value partialOf(mlir::Operation *reduce);

  // Setting up.
  void enter(llvm::StringRef name, int64_t threads, int64_t blocksPerMultiprocessor);
  void begin();
  void placeThread();
  void placeColumns(mlir::Value start, bool mayEnd, int64_t last);
  Running neutralRunning();
  llvm::SmallVector<mlir::Value> flatten(const Running &running);
  Running unflatten(mlir::ValueRange values);

  // Rows that are held in registers (ClusterKernel.cpp).
  void emitRows();
  void emitWalk();
  // Says where in shared memory the copies of rows are; `slot`: of the two sets of rows there, as an offset in bytes.
  void placeCopies(llvm::MutableArrayRef<Row> rows, mlir::Value slot);
  void copyColumns();
  mlir::Value unitOf(mlir::Value step);
  mlir::Value positionOf(mlir::Value step);
  void endUnit(mlir::Value step, Running &running);
  // Results with rows innermost (TurnedTiles.cpp, StagedRows.cpp).
  struct Turned {
    mlir::Value value;
    const fuse::View *view;
    mlir::Value output, buffer;
    mlir::Type element; // in memory
  };
  llvm::SmallVector<Turned> turnedTargets();
  mlir::Value inMemory(Row &row, const Turned &target, int64_t chunk);
  void emitTurned(llvm::MutableArrayRef<Row> rows);
  void stageRows(llvm::MutableArrayRef<Row> rows, mlir::Value step);
  mlir::Value columnOf(mlir::Value line);
  void storeStaged(mlir::Value step);
  void emitStage(int stage, llvm::MutableArrayRef<Row> rows, Running &running);
  void emitRowScalars(int stage, Row &row, Running &running);
  void emitRoots(llvm::ArrayRef<Root> roots, Row &row, Running &running, llvm::SmallVectorImpl<Item> &items);
  void emitRoot(const Root &root, Row &row, int64_t chunk, Running &running, mlir::Value &total);
  Row rowAt(mlir::Value position);
  void reduceTeams(llvm::MutableArrayRef<Item> items);
  // Rows that are read again by each stage (StreamedRows.cpp).
  void emitStreamedRows();
  void copyStreamed(Row row);
  llvm::SmallVector<mlir::Value>
  overColumns(llvm::SmallVector<mlir::Value> carried,
              const std::function<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> &body);
  void emitStreamedStage(int stage, Row &row, Running &running);
  void startColumns(mlir::Value unit);
  void addToColumns(const Root &root, Row &row, int64_t chunk, mlir::Value value);

  // Results of reductions over rows (Partials.cpp).
  mlir::Value exchange(mlir::Value value, int64_t bit);
  void storeColumns(const Running &running, fuse::ReductionKind which, mlir::Value unit);
  void storeScalars(const Running &running);
  // Stores a complete result of a reduction in its type; `index` in elements.
  void storeResult(mlir::Operation *reduce, mlir::Value value, mlir::Value base, mlir::Value index);
  void emitFinish(llvm::SmallVectorImpl<KernelEntry> &entries);
  void finishColumns(const Reduction &reduction, mlir::Value block);
  void finishScalar(const Reduction &reduction);

  mlir::OpBuilder builder;
  CudaBuilder k;
  mlir::gpu::GPUModuleOp module;
  ClusterOp cluster;
  const Schedule &s;
  const fuse::ClusterDomain &d;
  std::string symbol;
  mlir::Block &body;
  Values values;
  mlir::Value thread, block, tile, group, lane, team, inTeam; // inTeam: null where all threads have a team
  mlir::Value columnsBuffer;          // for sums of columns of several teams
  mlir::Value exchangeBuffer, parity; // of teams of several warps; parity: offset of the half in use
  llvm::SmallVector<Turned> staged;
  int64_t exchanges = 0, exchanged = 0; // slots of that buffer: in all, and used so far in this step
};

} // namespace msamp::codegen::cuda

#endif
