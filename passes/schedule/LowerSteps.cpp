// Lowers clusters, library calls, collectives and symbol writes to steps.
#include "passes/schedule/Lowering.h"

#include "llvm/ADT/TypeSwitch.h"

namespace msamp::schedule {
using namespace mlir;

namespace {
RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}
} // namespace

uint64_t clusterFlops(ClusterOp cluster) {
  uint64_t flops = 0;
  cluster.getBody().walk([&](Operation *op) {
    if (op->getNumResults() == 0 || op->hasTrait<OpTrait::ConstantLike>())
      return;
    auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
    if (!type || !isa<FloatType>(type.getElementType()))
      return;
    if (auto reduce = dyn_cast<ReduceOp>(op))
      flops += typeOf(reduce.getInput()).getNumElements();
    else if (!isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ConcatOp, PadOp>(op))
      flops += type.getNumElements();
  });
  return flops;
}

void FunctionLowering::lowerCluster(ClusterOp op) {
  planir::KernelOp kernel = shared.kernelFor(op);
  SmallVector<TensorMemory> inputs, outputs;
  for (Value input : op.getInputs())
    inputs.push_back(contiguous(input));
  for (Value result : op.getResults())
    outputs.push_back(define(result, /*strided=*/false));
  Value workspace;
  if (int64_t bytes = kernel.getWorkspace())
    workspace = buffer(op.getLoc(), "workspace", bytes, planir::BufferRole::Workspace);
  auto launch = step<planir::LaunchOp>(op.getLoc(), inputs, outputs, clusterFlops(op), StringRef(kernel.getSymName()));
  if (workspace)
    launch.getWorkspaceMutable().assign(workspace);
}

// A matrix that a GEMM can read: unit stride along one of the last two dimensions, turned so that it is the last one.
TensorMemory FunctionLowering::matrix(Value value, bool &transposed) {
  TensorMemory memory = memoryOf(value);
  size_t rank = memory.shape.size();
  int64_t &rows = memory.shape[rank - 2], &columns = memory.shape[rank - 1];
  int64_t &rowStride = memory.strides[rank - 2], &columnStride = memory.strides[rank - 1];
  if (columns == 1)
    columnStride = 1;
  if (rows == 1)
    rowStride = columnStride == 1 ? columns : 1;
  if (columnStride == 1 && rowStride >= columns)
    return memory;
  if (rowStride == 1 && columnStride >= rows) {
    std::swap(rows, columns);
    std::swap(rowStride, columnStride);
    transposed = !transposed;
    return memory;
  }
  return contiguous(value);
}

// An accumulation goes on in its addend's memory, if nothing else reads that and the result has no place of its own.
std::optional<TensorMemory> FunctionLowering::accumulator(Value addend, Value result) {
  if (!addend || !addend.hasOneUse() || addend.getType() != result.getType() || !addend.getDefiningOp<ProductOpInterface>())
    return std::nullopt;
  Uses satisfied;
  if (destinationOf(result, /*strided=*/true, satisfied))
    return std::nullopt;
  return memoryOf(addend);
}

template <typename Op>
void FunctionLowering::lowerMatMul(Op op, ValueRange scales, Value scaleOut, Value amax, bool fp8Values) {
  bool ta = op.getTransposeA(), tb = op.getTransposeB();
  auto type = typeOf(op.getA());
  uint64_t depth = type.getDimSize(type.getRank() - (ta ? 2 : 1));
  uint64_t flops = 2 * depth * typeOf(op.getResult()).getNumElements();
  SmallVector<TensorMemory> inputs{matrix(op.getA(), ta), matrix(op.getB(), tb)};
  for (Value scale : scales)
    inputs.push_back(typeOf(scale).getRank() == 2 ? memoryOf(scale) : contiguous(scale));
  if (op.getAddend())
    inputs.push_back(withUnitInnerStride(op.getAddend()));
  for (Value vector : {Value(op.getBias()), scaleOut})
    if (vector)
      inputs.push_back(contiguous(vector));
  SmallVector<TensorMemory> outputs;
  if (auto known = accumulator(op.getAddend(), op.getResult()))
    outputs.push_back(memories[op.getResult()] = *known);
  else
    outputs.push_back(define(op.getResult(), /*strided=*/true));
  if (amax)
    outputs.push_back(define(amax, /*strided=*/false));
  step<planir::MatMulOp>(op.getLoc(), inputs, outputs, flops, ta, tb, !scales.empty(), bool(op.getAddend()),
                         bool(op.getBias()), bool(scaleOut), fp8Values);
}

namespace {
// Multiply-adds of one of attention's products, counted as two operations.
uint64_t attentionProduct(Value q, Value k, bool causal) {
  auto qt = typeOf(q), kt = typeOf(k);
  uint64_t flops = 2 * qt.getNumElements() * kt.getDimSize(1);
  return causal ? flops / 2 : flops;
}
} // namespace

void FunctionLowering::lowerAttention(AttentionOp op) {
  SmallVector<TensorMemory> inputs;
  for (Value v : {op.getQ(), op.getK(), op.getV()})
    inputs.push_back(withUnitInnerStride(v));
  if (op.getBias())
    inputs.push_back(contiguous(op.getBias()));
  TensorMemory o = define(op.getO(), /*strided=*/true), lse = define(op.getLse(), /*strided=*/false);
  step<planir::AttentionOp>(op.getLoc(), inputs, {o, lse}, 2 * attentionProduct(op.getQ(), op.getK(), op.getCausal()),
                            op.getScale(), op.getCausal(), op.getBias() != nullptr);
}

void FunctionLowering::lowerAttentionGrad(AttentionGradOp op) {
  SmallVector<TensorMemory> inputs, outputs;
  for (Value v : {op.getDO(), op.getQ(), op.getK(), op.getV(), op.getO()})
    inputs.push_back(withUnitInnerStride(v));
  inputs.push_back(contiguous(op.getLse()));
  if (op.getBias())
    inputs.push_back(contiguous(op.getBias()));
  for (Value result : op->getResults())
    outputs.push_back(define(result, /*strided=*/true));
  step<planir::AttentionGradOp>(op.getLoc(), inputs, outputs,
                                5 * attentionProduct(op.getQ(), op.getK(), op.getCausal()), op.getScale(),
                                op.getCausal(), op.getBias() != nullptr);
}

LogicalResult FunctionLowering::lowerStoreGrad(StoreGradOp op) {
  OpOperand &use = op.getGradMutable();
  if (op.getScale()) {
    gradScales.symbols.push_back(op.getParamAttr());
    gradScales.values.push_back(contiguous(op.getScale()));
  }
  if (written.contains(&use))
    return success();
  TensorMemory target = gradPlace(op);
  auto constant = op.getGrad().getDefiningOp<arith::ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (op.getAccumulate()) {
    TensorMemory value = memoryOf(op.getGrad());
    if (!value.isContiguous())
      value = contiguous(op.getGrad());
    step<planir::AccumulateOp>(op.getLoc(), {value}, {target}, target.numElements());
  } else if (splat && isa<FloatType>(splat.getElementType())) {
    fill(op.getLoc(), target, splat.getSplatValue<APFloat>().convertToDouble());
  } else {
    copy(op.getLoc(), memoryOf(op.getGrad()), target);
  }
  return success();
}

// Scales must be known when a bucket is exchanged.
void FunctionLowering::storeGradScales(Location loc) {
  if (gradScales.symbols.empty())
    return;
  step<planir::StoreGradScaleOp>(loc, gradScales.values, {}, 0, builder.getArrayAttr(gradScales.symbols));
  gradScales = {};
}

LogicalResult FunctionLowering::lowerReturn(func::ReturnOp op) {
  for (OpOperand &use : op->getOpOperands())
    if (!written.contains(&use))
      copy(op.getLoc(), memoryOf(use.get()), outputPlace(use));
  storeGradScales(op.getLoc());
  if (!amaxes.symbols.empty())
    step<planir::RecordAmaxOp>(op.getLoc(), amaxes.values, {}, 0, builder.getArrayAttr(amaxes.symbols));
  return success();
}

LogicalResult FunctionLowering::lower(Operation *op) {
  if (lowerOverWindows(op))
    return success();
  Location loc = op->getLoc();
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<arith::ConstantOp, GetOp, GetScaleOp, GetAmaxOp, SiteScaleOp>([](auto) { return success(); })
      .Case<ReshapeOp, TransposeOp, SliceOp, BroadcastOp>([&](auto op) { return lowerView(op); })
      .Case<ConcatOp>([&](ConcatOp op) { return lowerConcat(op); })
      .Case<PadOp>([&](PadOp op) { return lowerPad(op); })
      .Case<ClusterOp>([&](ClusterOp op) { return lowerCluster(op), success(); })
      .Case<MatMulOp>([&](MatMulOp op) {
        lowerMatMul(op, {}, {}, {}, op.getFp8Values());
        return success();
      })
      .Case<ScaledMatMulOp>([&](ScaledMatMulOp op) {
        Value scales[] = {op.getScaleA(), op.getScaleB()};
        lowerMatMul(op, scales, op.getScaleOut(), op.getAmax(), /*fp8Values=*/true);
        return success();
      })
      .Case<AttentionOp>([&](AttentionOp op) { return lowerAttention(op), success(); })
      .Case<AttentionGradOp>([&](AttentionGradOp op) { return lowerAttentionGrad(op), success(); })
      .Case<GatherOp>([&](GatherOp op) {
        SmallVector<TensorMemory> inputs{contiguous(op.getTable()), contiguous(op.getIndices())};
        TensorMemory output = define(op.getResult(), /*strided=*/false);
        auto gather = step<planir::GatherOp>(loc, inputs, {output}, 0, op.getAxis());
        gather.setBytes(2 * output.sizeInBytes() + inputs[1].sizeInBytes()); // not the whole table
        return success();
      })
      .Case<ScatterAddOp>([&](ScatterAddOp op) {
        SmallVector<TensorMemory> inputs{contiguous(op.getUpdates()), contiguous(op.getIndices())};
        TensorMemory output = define(op.getResult(), /*strided=*/false);
        step<planir::ScatterAddOp>(loc, inputs, {output}, typeOf(op.getUpdates()).getNumElements());
        return success();
      })
      .Case<StoreGradOp>([&](StoreGradOp op) { return lowerStoreGrad(op); })
      .Case<TrackOp>([&](TrackOp op) {
        auto type = typeOf(op.getValue());
        copy(loc, memoryOf(op.getValue()), rowMajor(place(Place::Weight, op.getParam(), type), type));
        return success();
      })
      .Case<RecordAmaxOp>([&](RecordAmaxOp op) {
        amaxes.symbols.push_back(op.getSiteAttr());
        amaxes.values.push_back(contiguous(op.getAmax()));
        return success();
      })
      .Case<ExchangeOp>([&](ExchangeOp op) {
        storeGradScales(loc);
        step<planir::ExchangeOp>(loc, {}, {}, 0, op.getBucket(), op.getWire(), op.getZero());
        return success();
      })
      .Case<GradNormOp>([&](GradNormOp op) { return step<planir::GradNormOp>(loc, {}, {}, 0), success(); })
      .Case<UpdateOp>([&](UpdateOp op) {
        step<planir::UpdateOp>(loc, {}, {}, 0, static_cast<uint64_t>(op.getStateClass()), op.getOptimizer());
        return success();
      })
      .Case<GatherWeightsOp>([&](GatherWeightsOp op) {
        step<planir::GatherWeightsOp>(loc, {}, {}, 0, static_cast<uint64_t>(op.getStateClass()));
        return success();
      })
      .Case<UpdateSitesOp>([&](UpdateSitesOp op) {
        step<planir::UpdateSitesOp>(loc, {}, {}, 0, op.getHistory());
        return success();
      })
      .Case<func::ReturnOp>([&](func::ReturnOp op) { return lowerReturn(op); })
      .Default([](Operation *op) {
        return op->emitError() << "op '" << op->getName()
                               << "' is neither in a cluster nor a library call; the fuse phase must place it";
      });
}

LogicalResult FunctionLowering::run() {
  for (Operation &op : func.getBody().front())
    if (failed(lower(&op)))
      return failure();
  return success();
}

} // namespace msamp::schedule
