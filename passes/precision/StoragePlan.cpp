// Decides which values are BF16 in memory. The rule is about memory, not about ops: what a library reads or writes, and
// what outlives the kernel that computes it, is rounded; what stays inside a kernel is not.
#include "passes/precision/StoragePlan.h"

#include "passes/precision/Analysis.h"

using namespace mlir;

namespace msamp::precision {
namespace {
bool belongsToBackward(Operation *op) {
  return isBackward(op) || isRebuilt(op);
}
} // namespace

StoragePlan::StoragePlan(func::FuncOp step) : body(step.getBody().front()), terminator(body.getTerminator()) {
  for (auto [i, op] : llvm::enumerate(body))
    order[&op] = i;
  for (auto &entry : gradientResults(step))
    gradientOperands.insert(entry.first);
  exact = exactValues(body);
  findNative();
  propagate();
  findActivations();
  findLongLived();
  propagate();
}

bool StoragePlan::isBarrier(Operation *op) {
  if (isLibrary(op) || isa<BatchNormOp>(op))
    return true;
  auto reduce = dyn_cast<ReduceOp>(op);
  if (!reduce)
    return false;
  // A reduction of trailing dimensions stays within a row; any other needs the rows of other kernels' blocks.
  int64_t rank = tensorTypeOf(reduce.getInput()).getRank(), count = reduce.getDims().size();
  bool trailing = llvm::all_of(reduce.getDims(), [&](int64_t d) { return d >= rank - count; });
  return !trailing || (count == rank && rank > 1);
}

bool StoragePlan::takesBf16(OpOperand &use) {
  Operation *op = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (isa<MatMulOp>(op) || isOverWindows(op))
    return true;
  if (isa<ScatterAddOp>(op))
    return index == 0;
  if (isa<AttentionOp>(op))
    return index < 3;
  if (isa<AttentionGradOp>(op))
    return index < 5;
  return false;
}

// Ops whose result type is free: they write BF16 themselves.
bool StoragePlan::isNative(Value v) const {
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if (isa<GetOp>(op) || isView(op))
    return true;
  if (isa<AttentionOp>(op))
    return cast<OpResult>(v).getResultNumber() == 0;
  return isLibrary(op);
}

// Whether everything that depends on the value is a parameter's gradient: it is then stored FP32 until it is converted.
bool StoragePlan::onlyGradients(Value v) {
  if (auto known = gradientOnly.find(v); known != gradientOnly.end())
    return known->second;
  bool only = llvm::all_of(v.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (user == terminator)
      return gradientOperands.contains(use.getOperandNumber());
    if (isa<RecordAmaxOp>(user))
      return true;
    if (auto reduce = dyn_cast<ReduceOp>(user); reduce && reduce.getKind() == ReduceKind::Max)
      return true;
    if (!isPointwise(user) && !isView(user) && !isa<QuantizeOp>(user))
      return false;
    return llvm::all_of(user->getResults(), [&](Value r) { return onlyGradients(r); });
  });
  return gradientOnly[v] = only;
}

void StoragePlan::findNative() {
  for (Operation &op : body) {
    if (auto get = dyn_cast<GetOp>(op)) {
      auto param = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(get, get.getParamAttr());
      if (param && param.isStatistic())
        continue;
    }
    // An op over windows writes images in the type that it reads them in; only a filter's gradient may be wider.
    const bool likeItsOperands = isa<GetOp>(op) || (isOverWindows(&op) && !isa<ConvWgradOp>(op));
    for (Value v : op.getResults())
      if (isF32Tensor(v) && !exact.contains(v) && !isView(&op) && isNative(v) && (likeItsOperands || !onlyGradients(v)))
        bf16.insert(v);
  }
}

void StoragePlan::require(Value v) {
  SmallVector<Value> worklist{v};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (!isF32Tensor(value) || exact.contains(value) || !bf16.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op || !isView(op))
      continue;
    if (auto gather = dyn_cast<GatherOp>(op))
      worklist.push_back(gather.getTable());
    else
      llvm::append_range(worklist, op->getOperands());
  }
}

// Operands of library ops are BF16, views of BF16 values are BF16, and the parts of a concat are of one type.
void StoragePlan::propagate() {
  for (Operation &op : body) {
    for (OpOperand &use : op.getOpOperands())
      if (takesBf16(use) && !exact.contains(op.getResult(0)))
        require(use.get());
    if (!isView(&op) || !isF32Tensor(op.getResult(0)) || onlyGradients(op.getResult(0)))
      continue;
    bool any = isBf16(op.getResult(0));
    for (Value operand : op.getOperands())
      any |= isBf16(operand);
    if (any)
      require(op.getResult(0));
  }
}

void StoragePlan::findActivations() {
  for (Value v : body.getArguments())
    if (isF32Tensor(v) && tensorTypeOf(v).getRank() > 0)
      activations.insert(v);
  for (Operation &op : body)
    for (Value v : op.getResults()) {
      if (!isF32Tensor(v) || tensorTypeOf(v).getRank() == 0 || isa<ReduceOp, BroadcastOp, arith::ConstantOp>(op))
        continue;
      bool isOne = isBf16(v);
      // A named row op's other results are statistics.
      if ((isPointwise(&op) || isView(&op)) && cast<OpResult>(v).getResultNumber() == 0)
        for (Value operand : op.getOperands())
          isOne |= activations.contains(operand) || isBf16(operand);
      if (isOne && !isa<GetOp>(op))
        activations.insert(v);
    }
}

static bool quantised(Value v) {
  return llvm::any_of(v.getUsers(), [](Operation *user) { return isa<QuantizeOp>(user); });
}

void StoragePlan::findLongLived() {
  for (Operation &op : body) {
    // Its halves change places, so no loop nest takes what comes before it or what comes after it along.
    if (auto rotary = dyn_cast<RotaryOp>(op)) {
      require(rotary.getX());
      require(rotary.getY());
    }
    // Nor does one that holds rows take their blocks along, or those of the transposed tensor.
    if (auto reshape = dyn_cast<ReshapeOp>(op);
        reshape && quantised(reshape.getResult()) && activations.contains(reshape.getInput()))
      require(reshape.getInput());
    if (op.hasAttr(repeatedAttr))
      continue;
    for (Value v : op.getResults())
      if (activations.contains(v) && !isBf16(v) && !isView(&op) && crossesBarrier(v))
        require(v);
  }
}

// Whether a use of the value waits for a library op that itself waits for the value: no kernel can hold it until then.
bool StoragePlan::crossesBarrier(Value v) const {
  llvm::DenseSet<Operation *> uses;
  unsigned last = 0;
  bool isForward = !v.getDefiningOp() || !belongsToBackward(v.getDefiningOp());
  SmallVector<Value> same{v};
  while (!same.empty())
    for (Operation *user : same.pop_back_val().getUsers()) {
      if (user == terminator)
        continue;
      if (isView(user) && tensorTypeOf(user->getResult(0)).getElementType().isF32()) {
        same.push_back(user->getResult(0));
        continue;
      }
      // What the backward reads of the forward is kept, even where it could be read early.
      if (isForward && belongsToBackward(user))
        return true;
      uses.insert(user);
      last = std::max(last, order.lookup(user));
    }
  if (uses.size() < 2)
    return false;
  llvm::DenseSet<Value> depends{v}, behind;
  auto start = v.getDefiningOp() ? std::next(v.getDefiningOp()->getIterator()) : body.begin();
  for (Operation &op : llvm::make_range(start, body.end())) {
    if (order.lookup(&op) > last)
      break;
    bool isDependent = false, isBehind = false;
    for (Value operand : op.getOperands()) {
      isBehind |= behind.contains(operand);
      isDependent |= depends.contains(operand);
    }
    if (isBehind && uses.contains(&op))
      return true;
    if (!isDependent && !isBehind)
      continue;
    isBehind |= isBarrier(&op);
    for (Value result : op.getResults())
      (isBehind ? behind : depends).insert(result);
  }
  return false;
}

} // namespace msamp::precision
