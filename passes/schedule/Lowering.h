// State of the lowering of one function to a program, shared by the files that lower its ops.
#ifndef MSAMP_PASSES_SCHEDULE_LOWERING_H
#define MSAMP_PASSES_SCHEDULE_LOWERING_H

#include "passes/schedule/Passes.h"
#include "passes/schedule/TensorMemory.h"

#include "llvm/ADT/StringMap.h"

namespace msamp::schedule {

// What the programs of a module share: kernels and constants, each once.
class ModuleLowering {
public:
  ModuleLowering(mlir::ModuleOp module, KernelShapeFn shape);

  planir::KernelOp kernelFor(ClusterOp cluster);
  mlir::StringAttr constantFor(mlir::ElementsAttr value);

private:
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  KernelShapeFn shape;
  llvm::StringMap<planir::KernelOp> kernels; // by their text without locations
  llvm::DenseMap<mlir::Attribute, mlir::StringAttr> constants;
  int nextKernel = 0, nextConstant = 0;
};

class FunctionLowering {
public:
  FunctionLowering(ModuleLowering &shared, mlir::func::FuncOp func, planir::ProgramOp program);
  mlir::LogicalResult run();

private:
  using Place = planir::PlaceKind;
  mlir::LogicalResult lower(mlir::Operation *op);
  mlir::LogicalResult lowerView(mlir::Operation *op);
  mlir::LogicalResult lowerConcat(ConcatOp op);
  mlir::LogicalResult lowerPad(PadOp op);
  mlir::LogicalResult lowerStoreGrad(StoreGradOp op);
  mlir::LogicalResult lowerReturn(mlir::func::ReturnOp op);
  void lowerCluster(ClusterOp op);
  template <typename Op>
  void lowerMatMul(Op op, mlir::ValueRange scales, mlir::Value scaleOut, mlir::Value amax, bool fp8Values);
  std::optional<TensorMemory> accumulator(mlir::Value addend, mlir::Value result);
  void lowerAttention(AttentionOp op);
  void lowerAttentionGrad(AttentionGradOp op);
  bool lowerOverWindows(mlir::Operation *op); // false: it is none of these
  template <typename StepOp, typename... Own>
  void lowerWindows(mlir::Operation *op, uint64_t flops, Own... own);

  // Memory of the function.
  mlir::Value place(Place kind, mlir::StringRef name, mlir::RankedTensorType type);
  mlir::Value buffer(mlir::Location loc, mlir::StringRef name, int64_t bytes, planir::BufferRole role);
  TensorMemory temporary(mlir::Location loc, mlir::StringRef name, mlir::RankedTensorType type,
                         planir::BufferRole role = planir::BufferRole::Activation);
  TensorMemory &memoryOf(mlir::Value value);
  TensorMemory contiguous(mlir::Value value);
  TensorMemory withUnitInnerStride(mlir::Value value);
  TensorMemory matrix(mlir::Value value, bool &transposed);
  TensorMemory gradPlace(StoreGradOp op);
  TensorMemory outputPlace(mlir::OpOperand &use);

  // Where a result may be written right away: the place of its only use, or null. `strided` says whether its
  // producer can leave gaps between rows.
  using Uses = llvm::SmallVector<mlir::OpOperand *, 1>;
  std::optional<TensorMemory> destinationOf(mlir::Value value, bool strided, Uses &satisfied);
  TensorMemory concatMemory(ConcatOp op);
  TensorMemory define(mlir::Value result, bool strided);

  // Steps.
  mlir::Value view(mlir::Location loc, const TensorMemory &memory);
  void copy(mlir::Location loc, const TensorMemory &from, const TensorMemory &to);
  void fill(mlir::Location loc, const TensorMemory &to, double value);
  void storeGradScales(mlir::Location loc);
  template <typename StepOp, typename... Own>
  StepOp step(mlir::Location loc, mlir::ArrayRef<TensorMemory> in, mlir::ArrayRef<TensorMemory> out, uint64_t flops,
              Own... own);

  ModuleLowering &shared;
  mlir::func::FuncOp func;
  planir::ProgramOp program;
  mlir::OpBuilder builder;
  llvm::DenseMap<mlir::Value, TensorMemory> memories, contiguousCopies;
  llvm::DenseMap<std::pair<int, mlir::StringAttr>, mlir::Value> places;
  llvm::DenseMap<std::pair<std::pair<mlir::Value, mlir::Type>, int64_t>, mlir::Value> views;
  llvm::DenseMap<mlir::Operation *, TensorMemory> concats;
  llvm::DenseSet<mlir::OpOperand *> written;  // uses whose destination holds the value already
  mlir::Operation *lastDeclaration = nullptr; // buffers, places and views stand before all steps
  struct Scalars {                            // of several symbols, handled by one step
    llvm::SmallVector<mlir::Attribute> symbols;
    llvm::SmallVector<TensorMemory> values;
  };
  Scalars gradScales, amaxes;
};

template <typename StepOp, typename... Own>
StepOp FunctionLowering::step(mlir::Location loc, mlir::ArrayRef<TensorMemory> in, mlir::ArrayRef<TensorMemory> out,
                              uint64_t flops, Own... own) {
  llvm::SmallVector<mlir::Value> inputs, outputs;
  uint64_t bytes = 0;
  for (const TensorMemory &memory : in) {
    inputs.push_back(view(loc, memory));
    bytes += memory.sizeInBytes();
  }
  for (const TensorMemory &memory : out) {
    outputs.push_back(view(loc, memory));
    bytes += memory.sizeInBytes();
  }
  return StepOp::create(builder, loc, own..., mlir::ValueRange(inputs), mlir::ValueRange(outputs), mlir::ValueRange(),
                        /*first=*/false, bytes, flops);
}

// Drops ops without uses or effects, clusters among them.
void eraseDeadOps(mlir::func::FuncOp func);

// Floating-point operations of a cluster's region.
uint64_t clusterFlops(ClusterOp cluster);

} // namespace msamp::schedule

#endif
