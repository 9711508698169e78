// Rebuilds activations in the backward part of @step instead of keeping them from the forward part.
#include "ir/Msamp/Expr.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipeline.h"
#include "passes/recompute/Passes.h"
#include "llvm/ADT/DenseSet.h"

#include <string>

using namespace mlir;

namespace msamp::recompute {

#define GEN_PASS_DEF_REBUILDACTIVATIONS
#include "passes/recompute/Passes.h.inc"

namespace {

bool hasLocTag(Operation *op, StringRef tag) {
  auto fused = dyn_cast<FusedLoc>(op->getLoc());
  auto name = fused ? dyn_cast_or_null<StringAttr>(fused.getMetadata()) : StringAttr();
  return name && name.getValue() == tag;
}

// Values that exist in the backward anyway: inputs, parameters, constants.
bool isFree(Value v) {
  Operation *op = v.getDefiningOp();
  return !op || isa<GetOp>(op) || op->hasTrait<OpTrait::ConstantLike>();
}

bool isNorm(Operation *op) {
  return isa<LayerNormOp, RmsNormOp, BatchNormOp>(op);
}

// One pass over memory at most, and no reduction: it fuses into the kernel that reads it.
bool isCheap(Operation *op) {
  return op->hasTrait<OpTrait::Elementwise>() ||
         isa<BroadcastOp, ReshapeOp, TransposeOp, SliceOp, ConcatOp, PadOp, IotaOp, RotaryOp>(op);
}

class Rebuilder {
public:
  Rebuilder(func::FuncOp func, bool full) : func(func), full(full), builder(func.getContext()) {}

  void run() {
    if (!split())
      return;
    if (full)
      findCheckpoints();
    decide();
    for (Operation *op : backward) {
      if (op->hasTrait<OpTrait::ConstantLike>())
        continue;
      for (OpOperand &operand : op->getOpOperands()) {
        if (!rebuilt.contains(operand.get()))
          continue;
        builder.setInsertionPoint(op);
        operand.set(clone(operand.get()));
      }
    }
  }
  unsigned count() const { return rebuiltCount; }
  int64_t bytes() const { return savedBytes; }

private:
  bool split() {
    bool seen = false;
    for (Operation &op : func.getBody().front().without_terminator()) {
      if (!seen && hasLocTag(&op, "autodiff") && !op.hasTrait<OpTrait::ConstantLike>())
        seen = true;
      (seen ? backward : forward).push_back(&op);
    }
    for (auto [i, op] : llvm::enumerate(forward))
      index[op] = i;
    return seen;
  }

  // Blocks begin where one value alone carries the computation: the residual stream after an addition.
  void findCheckpoints() {
    size_t n = forward.size();
    SmallVector<size_t> lastUse(n, 0);
    SmallVector<SmallVector<Value>> endsAt(n);
    auto carries = [](Value v) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      return type && isa<FloatType>(type.getElementType()) && !isFree(v);
    };
    int live = 0;
    llvm::DenseMap<Value, size_t> last;
    llvm::DenseSet<Value> free; // depends on parameters, constants and indices only, as broadcast biases do
    for (Operation *op : forward)
      if (isa<BroadcastOp, ReshapeOp, TransposeOp>(op) &&
          llvm::all_of(op->getOperands(), [&](Value v) { return isFree(v) || free.contains(v); }))
        free.insert(op->getResult(0));
    for (auto [i, op] : llvm::enumerate(forward))
      for (Value v : op->getOperands())
        if (carries(v) && !free.contains(v))
          last[v] = i;
    for (auto &[v, i] : last)
      endsAt[i].push_back(v);
    for (auto [i, op] : llvm::enumerate(forward)) {
      live -= int(endsAt[i].size());
      for (Value v : op->getResults())
        if (last.contains(v))
          ++live;
      bool embeds = isa<GatherOp>(op);
      if (live == 1 && (isa<arith::AddFOp>(op) || embeds) && last.contains(op->getResult(0)) &&
          tensorTypeOf(op->getResult(0)).getRank() >= 2)
        checkpoints.push_back(op);
    }
  }

  // `full`: all of a block but what ends it, except in the last one (the head), whose backward follows at once.
  bool mayRebuild(Operation *op) const {
    if (isNorm(op) || isCheap(op))
      return true;
    if (!full || checkpoints.empty() || index.lookup(op) > index.lookup(checkpoints.back()))
      return false;
    return isMemoryEffectFree(op) && !isa<AttentionOp, CrossEntropyOp, GatherOp>(op);
  }
  bool isCheckpoint(Value v) const { return llvm::is_contained(checkpoints, v.getDefiningOp()); }

  // Whether `v` can be made again from values that are kept. Statistics of norms are always kept.
  bool fromKept(Value v) {
    if (isFree(v) || kept.contains(throughReshapes(v)) || rebuilt.contains(v))
      return true;
    Operation *op = v.getDefiningOp();
    auto known = possible.find(v);
    if (known != possible.end())
      return known->second;
    bool can = mayRebuild(op) && !isCheckpoint(v);
    if (can && isNorm(op)) {
      // Rebuilding reads the statistics; they are kept for the backward only where it uses them.
      can = v == op->getResult(0) &&
            llvm::all_of(op->getResults().drop_front(), [&](Value s) { return kept.contains(s); });
    }
    can = can && llvm::all_of(op->getOperands(), [&](Value operand) { return fromKept(operand); });
    if (can)
      possible[v] = true;
    return can;
  }

  // The kept values as large as `v`, or larger, that rebuilding it reads.
  void largeSources(Value v, int64_t elements, llvm::SmallDenseSet<Value> &sources, llvm::DenseSet<Value> &seen) {
    if (isFree(v) || !seen.insert(v).second)
      return;
    if (Value source = throughReshapes(v); kept.contains(source)) {
      if (tensorTypeOf(source).getNumElements() >= elements)
        sources.insert(source);
      return;
    }
    if (isNorm(v.getDefiningOp()))
      return largeSources(v.getDefiningOp()->getOperand(0), elements, sources, seen);
    for (Value operand : v.getDefiningOp()->getOperands())
      largeSources(operand, elements, sources, seen);
  }

  // Rebuilding a sum of sums from all of their terms costs more traffic than it saves memory: a residual stream of
  // norms that are cheap themselves (ResNet's) is kept at every other block.
  bool isToBeRebuilt(Value v) {
    constexpr size_t most = 2;
    if (!fromKept(v))
      return false;
    if (full)
      return true;
    llvm::SmallDenseSet<Value> sources;
    llvm::DenseSet<Value> seen;
    largeSources(v, tensorTypeOf(v).getNumElements(), sources, seen);
    return sources.size() <= most;
  }

  void decide() {
    llvm::DenseSet<Value> crossing;
    for (Operation *op : backward)
      for (Value v : op->getOperands())
        if (Operation *source = v.getDefiningOp(); source && index.contains(source) && !isFree(v)) {
          crossing.insert(v);
          // A statistic is known before the norm's own result is decided on.
          if (isNorm(source) && v != source->getResult(0))
            kept.insert(v);
        }
    // The backward begins with the last product, so what that reads is needed again at once.
    for (Operation *op : llvm::reverse(forward))
      if (isa<MatMulOp>(op)) {
        for (Value v : op->getOperands())
          if (Value source = throughReshapes(v); crossing.contains(source) || crossing.contains(v))
            kept.insert(source);
        break;
      }
    for (Operation *op : forward)
      for (Value v : op->getResults()) {
        if (full && isCheckpoint(v))
          kept.insert(v);
        if (!crossing.contains(v) || kept.contains(v))
          continue;
        if (isa<ReshapeOp>(op)) {
          // A view: what it shows is decided on.
          Value source = throughReshapes(v);
          if (isFree(source))
            continue;
          if (!isToBeRebuilt(source))
            kept.insert(source);
          if (!kept.contains(source))
            rebuilt.insert(v);
          continue;
        }
        if (isToBeRebuilt(v)) {
          rebuilt.insert(v);
          auto type = tensorTypeOf(v);
          savedBytes += type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
          ++rebuiltCount;
        } else {
          kept.insert(v);
        }
      }
  }

  Location rebuiltLoc(Operation *op) const {
    MLIRContext *context = op->getContext();
    return FusedLoc::get(context, {op->getLoc()}, StringAttr::get(context, "recompute"));
  }

  // Whether a value is made from free values alone; such a one is made at each use, so that it does not live from the
  // first layer's use to the last one's.
  bool onlyFromFree(Value v) {
    if (isFree(v))
      return true;
    Operation *op = v.getDefiningOp();
    return isa<BroadcastOp, ReshapeOp, TransposeOp, IotaOp>(op) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return onlyFromFree(operand); });
  }

  Value clone(Value v) {
    if (isFree(v) || kept.contains(v))
      return v;
    if (auto found = clones.find(v); found != clones.end())
      return found->second;
    Operation *op = v.getDefiningOp();
    if (Value source = throughReshapes(v); source != v && (kept.contains(source) || isFree(source)))
      return v;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(clone(operand));
    Operation *point = builder.getInsertionBlock()->empty() ? nullptr : builder.getInsertionPoint()->getPrevNode();
    Value made;
    if (auto norm = dyn_cast<LayerNormOp>(op)) {
      made = rebuildNorm(norm, operands[0], norm.getScale(), norm.getShift(), norm.getMean(), norm.getRstd());
    } else if (auto norm = dyn_cast<RmsNormOp>(op)) {
      made = rebuildNorm(norm, operands[0], norm.getScale(), Value(), Value(), norm.getRstd());
    } else if (auto norm = dyn_cast<BatchNormOp>(op)) {
      made = rebuildNorm(norm, operands[0]);
    } else {
      IRMapping mapping;
      mapping.map(op->getOperands(), operands);
      Operation *copy = builder.clone(*op, mapping);
      made = copy->getResult(cast<OpResult>(v).getResultNumber());
    }
    // The mark keeps CSE from merging the copy with its original.
    Operation *first = point ? point->getNextNode() : &builder.getInsertionBlock()->front();
    for (Operation *fresh = first; fresh != &*builder.getInsertionPoint(); fresh = fresh->getNextNode()) {
      fresh->setLoc(rebuiltLoc(op));
      if (!fresh->hasTrait<OpTrait::ConstantLike>())
        fresh->setAttr("msamp.rebuilt", builder.getUnitAttr());
    }
    if (!onlyFromFree(v))
      clones[v] = made;
    return made;
  }

  Value rebuildNorm(Operation *op, Value input, Value scale, Value shift, Value mean, Value rstd) {
    Location loc = op->getLoc();
    Expr x(builder, loc, input);
    SmallVector<int64_t> shape(x.type().getShape());
    if (mean)
      x = x - Expr(builder, loc, mean).perRow(shape);
    Expr y = x * Expr(builder, loc, rstd).perRow(shape);
    if (scale)
      y = y * Expr(builder, loc, scale).perColumn(shape);
    if (shift)
      y = y + Expr(builder, loc, shift).perColumn(shape);
    return y.value;
  }

  Value rebuildNorm(BatchNormOp norm, Value input) {
    Location loc = norm.getLoc();
    Expr x(builder, loc, input), variance(builder, loc, norm.getVariance());
    SmallVector<int64_t> shape(x.type().getShape());
    Expr shifted = variance + norm.getEps().convertToDouble();
    Expr factor = Expr(builder, loc, norm.getScale()) / shifted.make<math::SqrtOp>(shifted.value);
    Expr centred = (x - Expr(builder, loc, norm.getMean()).perColumn(shape)).repeated();
    Expr scaled = centred * factor.perColumn(shape);
    return (scaled + Expr(builder, loc, norm.getShift()).perColumn(shape)).value;
  }

  func::FuncOp func;
  bool full;
  OpBuilder builder;
  SmallVector<Operation *> forward, backward, checkpoints;
  llvm::DenseMap<Operation *, size_t> index;
  llvm::DenseSet<Value> kept, rebuilt;
  llvm::DenseMap<Value, bool> possible;
  llvm::DenseMap<Value, Value> clones;
  unsigned rebuiltCount = 0;
  int64_t savedBytes = 0;
};

struct RebuildActivations : impl::RebuildActivationsBase<RebuildActivations> {
  using RebuildActivationsBase::RebuildActivationsBase;

  void runOnOperation() override {
    if (mode == "none")
      return;
    if (mode != "selective" && mode != "full") {
      getOperation().emitError() << "unknown recompute mode '" << mode << "'; use none, selective or full";
      return signalPassFailure();
    }
    auto func = getOperation().lookupSymbol<func::FuncOp>("step");
    if (!func) {
      getOperation().emitError() << "no function @step to rebuild activations in; run the autodiff phase first";
      return signalPassFailure();
    }
    Rebuilder rebuilder(func, mode == "full");
    rebuilder.run();
    remark::passed(func.getLoc(), remark::RemarkOpts::name("rebuilt").category("recompute"))
        << std::to_string(rebuilder.count()) << " activations are rebuilt in the backward instead of kept ("
        << std::to_string(rebuilder.bytes()) << " bytes before precision)";
  }
};

} // namespace

void buildPipeline(OpPassManager &pm, const PipelineOptions &options) {
  RebuildActivationsOptions pass;
  pass.mode = options.recompute;
  pm.addPass(createRebuildActivations(pass));
  pm.addPass(createCSEPass());
}

} // namespace msamp::recompute
