// Checks after precision: every tensor has its storage type, and FP8 is explicit.
#include "passes/partition/Types.h"
#include "passes/precision/Analysis.h"
#include "passes/verify/Checks.h"

using namespace mlir;

namespace msamp::verify {
namespace {

bool isElement(Value v, Type element) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type && type.getElementType() == element;
}

LogicalResult checkFp32(func::FuncOp step) {
  LogicalResult good = success();
  for (Operation &op : step.getBody().front()) {
    if (isa<QuantizeOp, ScaledMatMulOp, SiteScaleOp, RecordAmaxOp>(op))
      good = op.emitError() << "at level fp32";
    for (Value v : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (type && (type.getElementType().isBF16() || type.getElementType().isF16()))
        good = op.emitError() << "result of type " << type << " at level fp32";
    }
  }
  return good;
}

// What is quantised by blocks is put together again.
Value beforeBlocks(Value v) {
  while (isa_and_nonnull<ReshapeOp, SliceOp>(v.getDefiningOp()))
    v = v.getDefiningOp()->getOperand(0);
  return v;
}

// Library ops read and write BF16, but for what becomes an integer; FP8 operands come from msamp.quantize or are stored
// as FP8.
LogicalResult checkLibraryOps(func::FuncOp step) {
  LogicalResult good = success();
  Type bf16 = BFloat16Type::get(step.getContext());
  auto need = [&](Operation &op, ValueRange values) {
    for (Value v : values)
      if (!isElement(v, bf16))
        good = op.emitError() << "operand of type " << v.getType() << ", expected bf16";
  };
  llvm::DenseSet<Value> exact = precision::exactValues(step.getBody().front());
  for (Operation &op : step.getBody().front()) {
    if (isa<MatMulOp>(op) && !exact.contains(op.getResult(0)))
      need(op, op.getOperands());
    if (precision::isOverWindows(&op) && !exact.contains(op.getResult(0)))
      for (Value v : op.getOperands())
        if (isa<FloatType>(cast<RankedTensorType>(v.getType()).getElementType()))
          need(op, v);
    if (isa<AttentionOp>(op))
      need(op, op.getOperands().take_front(3));
    if (isa<AttentionGradOp>(op))
      need(op, op.getOperands().take_front(5));
    auto product = dyn_cast<ScaledMatMulOp>(op);
    if (!product)
      continue;
    for (Value v : {product.getA(), product.getB()})
      if (!isa_and_nonnull<QuantizeOp, GetOp>(beforeBlocks(v).getDefiningOp()))
        good = op.emitError() << "FP8 operand of type " << v.getType() << " is neither quantised nor a stored weight";
    if (isElement(product.getA(), Float8E5M2Type::get(step.getContext())) &&
        isElement(product.getB(), Float8E5M2Type::get(step.getContext())))
      good = op.emitError() << "both operands are f8E5M2, which no library multiplies";
  }
  return good;
}

LogicalResult checkScaledParameters(func::FuncOp step) {
  LogicalResult good = success();
  llvm::DenseSet<StringRef> sites;
  step.walk([&](RecordAmaxOp record) { sites.insert(record.getSite()); });
  step.walk([&](SiteScaleOp use) {
    auto site = SymbolTable::lookupNearestSymbolFrom<SiteOp>(use, use.getSiteAttr());
    if (!site)
      good = use.emitError() << "no msamp.site named " << use.getSite();
    else if (!sites.contains(use.getSite()))
      good = use.emitError() << "site " << use.getSite() << " has a scale, but no msamp.record_amax feeds it";
  });
  return good;
}

} // namespace

LogicalResult checkPrecision(ModuleOp module) {
  func::FuncOp step = precision::findStep(module);
  if (!step)
    return failure();
  partition::StepSettings settings(module);
  LogicalResult good = success();
  for (auto param : module.getOps<ParameterOp>())
    if (param.getTrained() && !param.getStateClass())
      good = param.emitError() << "trained parameter " << param.getSymName() << " has no state class";
  if (failed(good))
    return failure();
  step.walk([&](GetOp get) {
    auto param = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(get, get.getParamAttr());
    if (!param.getTensorType().getElementType().isF32())
      return;
    Type expected = partition::elementOf(get.getContext(), settings.storage(param).weight);
    if (!isElement(get.getResult(), expected))
      good = get.emitError() << "reads " << get.getResult().getType() << ", but the "
                             << partition::StepSettings::className(param) << " class stores " << expected
                             << " at level " << settings.level;
  });
  Operation *ret = step.getBody().front().getTerminator();
  for (auto [index, param] : precision::gradientResults(step)) {
    Type expected = partition::elementOf(module.getContext(), settings.storage(param).grad);
    if (!isElement(ret->getOperand(index), expected))
      good = ret->emitError() << "gradient of " << param.getSymName() << " has type "
                              << ret->getOperand(index).getType() << ", but the "
                              << partition::StepSettings::className(param) << " class stores " << expected;
  }
  if (failed(good))
    return failure();
  if (settings.level == "fp32")
    return checkFp32(step);
  if (failed(checkLibraryOps(step)))
    return failure();
  return checkScaledParameters(step);
}

} // namespace msamp::verify
