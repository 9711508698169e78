// Questions that the precision passes ask about a step.
#include "passes/precision/Analysis.h"

using namespace mlir;

namespace msamp::precision {
namespace {

// Metadata of the outermost fused location that has one: "recompute" over "autodiff" where both apply.
StringRef originOf(Location loc) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    if (auto name = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
      if (name == "autodiff" || name == "recompute")
        return name.getValue();
    for (Location inner : fused.getLocations())
      if (StringRef origin = originOf(inner); !origin.empty())
        return origin;
  }
  if (auto name = dyn_cast<NameLoc>(loc))
    return originOf(name.getChildLoc());
  return {};
}

} // namespace

func::FuncOp findStep(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step || !step.getBody().hasOneBlock()) {
    module.emitError() << "no function @step of one block: run the autodiff phase first";
    return {};
  }
  return step;
}

bool isRebuilt(Operation *op) {
  return op->hasAttr("msamp.rebuilt") || originOf(op->getLoc()) == "recompute";
}
bool isBackward(Operation *op) {
  return !isRebuilt(op) && originOf(op->getLoc()) == "autodiff";
}

llvm::MapVector<unsigned, ParameterOp> gradientResults(func::FuncOp step) {
  llvm::MapVector<unsigned, ParameterOp> grads;
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (auto name = step.getResultAttrOfType<FlatSymbolRefAttr>(i, "msamp.grad"))
      if (auto param = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(step, name))
        grads[i] = param;
  return grads;
}

void collectWeightGradients(Value grad, SmallVectorImpl<MatMulOp> &products) {
  Operation *op = grad.getDefiningOp();
  if (!op)
    return;
  if (auto product = dyn_cast<MatMulOp>(op)) {
    if (tensorTypeOf(product.getResult()).getRank() == 2 && !llvm::is_contained(products, product))
      products.push_back(product);
    return;
  }
  if (isa<TransposeOp, ReshapeOp, arith::AddFOp>(op))
    for (Value operand : op->getOperands())
      collectWeightGradients(operand, products);
}

MatMulOp findHead(func::FuncOp step) {
  Operation *ret = step.getBody().front().getTerminator();
  if (ret->getNumOperands() == 0)
    return {};
  MatMulOp head;
  llvm::DenseSet<Operation *> seen;
  SmallVector<Value> worklist{ret->getOperand(0)};
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto product = dyn_cast<MatMulOp>(op)) {
      if (!head || head->isBeforeInBlock(product))
        head = product;
      continue;
    }
    // Norms, attention and lookups end the search: what is before them is the body of the model.
    if (isa<LayerNormOp, RmsNormOp, BatchNormOp, RotaryOp, GatherOp>(op))
      continue;
    if (isPointwise(op) || isView(op) || isa<ReduceOp, BroadcastOp>(op))
      llvm::append_range(worklist, op->getOperands());
  }
  return head;
}

bool isPointwise(Operation *op) {
  if (isa<arith::ConstantOp>(op))
    return false;
  if (isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return true;
  return isa<LayerNormOp, RmsNormOp, BatchNormOp, SoftmaxOp, GeluOp, GeluGradOp, SwigluOp, RotaryOp, CrossEntropyOp>(
      op);
}

bool isView(Operation *op) {
  return isa<ReshapeOp, TransposeOp, SliceOp, PadOp, ConcatOp, GatherOp>(op);
}

bool isOverWindows(Operation *op) {
  return isa<ConvOp, ConvDgradOp, ConvWgradOp, MaxPoolOp, MaxPoolGradOp, AvgPoolOp, AvgPoolGradOp>(op);
}

bool isLibrary(Operation *op) {
  return isa<MatMulOp, ScaledMatMulOp, AttentionOp, AttentionGradOp, ScatterAddOp>(op) || isOverWindows(op);
}

GetOp parameterBehind(Value value, bool &flips) {
  flips = false;
  while (auto transpose = value.getDefiningOp<TransposeOp>()) {
    if (tensorTypeOf(value).getRank() != 2)
      return {};
    if (transpose.getPerm()[0] == 1)
      flips = !flips;
    value = transpose.getInput();
  }
  return value.getDefiningOp<GetOp>();
}

bool isF32Tensor(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type && type.getElementType().isF32();
}

StringRef moduleString(ModuleOp module, StringRef name, StringRef otherwise) {
  auto attr = module->getAttrOfType<StringAttr>(name);
  return attr ? attr.getValue() : otherwise;
}

int64_t moduleInteger(ModuleOp module, StringRef name, int64_t otherwise) {
  auto attr = module->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : otherwise;
}

llvm::DenseSet<Value> exactValues(Block &body) {
  llvm::DenseSet<Value> exact;
  SmallVector<Value> worklist;
  for (Operation &op : body)
    if (isa<arith::FPToSIOp, arith::FPToUIOp>(op))
      worklist.push_back(op.getOperand(0));
  while (!worklist.empty()) {
    Value v = worklist.pop_back_val();
    Operation *op = v.getDefiningOp();
    if (!isF32Tensor(v) || !op || isa<GetOp>(op) || !exact.insert(v).second)
      continue;
    llvm::append_range(worklist, op->getOperands());
  }
  return exact;
}

} // namespace msamp::precision
