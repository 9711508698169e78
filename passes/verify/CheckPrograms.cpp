// Checks after partition and optimizer: flat spaces without holes, each gradient stored and exchanged once, three programs.
#include "passes/partition/Types.h"
#include "passes/verify/Checks.h"

using namespace mlir;

namespace msamp::verify {
namespace {

// Each trained parameter is in one bucket, and the buckets of a class tile its flat space in blocks.
LogicalResult checkBuckets(ModuleOp module) {
  llvm::DenseMap<StringRef, unsigned> times;
  int64_t next[2] = {0, 0};
  LogicalResult good = success();
  SmallVector<BucketOp> buckets(module.getOps<BucketOp>());
  // A class's buckets are complete in the order in which they lie.
  for (BucketOp bucket : buckets) {
    int64_t &end = next[unsigned(bucket.getStateClass())];
    if (int64_t(bucket.getOffset()) != end)
      good = bucket.emitError() << "bucket " << bucket.getSymName() << " starts at " << bucket.getOffset() << ", expected " << end;
    int64_t elements = 0;
    for (auto name : bucket.getParams().getAsRange<FlatSymbolRefAttr>()) {
      auto param = module.lookupSymbol<ParameterOp>(name.getValue());
      if (!param || !param.getTrained() || param.getStateClass() != bucket.getStateClass())
        return bucket.emitError() << name << " is no trained parameter of class " << stringifyStateClass(bucket.getStateClass());
      elements += partition::padded(param.getTensorType().getNumElements());
      if (++times[name.getValue()] > 1) good = bucket.emitError() << name << " is in two buckets";
    }
    if (int64_t(bucket.getElements()) != elements)
      good = bucket.emitError() << "bucket " << bucket.getSymName() << " has " << bucket.getElements()
                                << " elements, its parameters have " << elements << " when padded";
    end += bucket.getElements();
  }
  for (auto param : module.getOps<ParameterOp>())
    if (param.getTrained() && !times.count(param.getSymName()))
      good = param.emitError() << "trained parameter " << param.getSymName() << " is in no bucket";
  return good;
}

// One store a trained parameter, in its storage type, and behind the last store of a bucket its exchange.
LogicalResult checkStores(ModuleOp module, func::FuncOp step) {
  partition::StepSettings settings(module);
  LogicalResult good = success();
  llvm::DenseMap<StringRef, Operation *> stores;
  step.walk([&](StoreGradOp store) {
    auto param = module.lookupSymbol<ParameterOp>(store.getParam());
    if (!param || !param.getTrained()) {
      good = store.emitError() << store.getParam() << " is no trained parameter";
      return;
    }
    if (!stores.try_emplace(store.getParam(), store).second) good = store.emitError() << "second gradient of " << store.getParam();
    Type expected = partition::elementOf(module.getContext(), settings.storage(param).grad);
    auto type = cast<RankedTensorType>(store.getGrad().getType());
    if (type.getElementType() != expected || type.getShape() != param.getTensorType().getShape())
      good = store.emitError() << "gradient of type " << type << " for parameter type " << param.getType() << " stored as " << expected;
    if ((type.getElementTypeBitWidth() == 8) != bool(store.getScale()))
      good = store.emitError() << "a gradient has a scale exactly if it is FP8";
    if (store.getAccumulate() != (settings.accumulate > 1))
      good = store.emitError() << "accumulate does not fit " << settings.accumulate << " micro-batches a step";
  });
  if (failed(good)) return failure();
  for (auto param : module.getOps<ParameterOp>())
    if (param.getTrained() && !stores.count(param.getSymName()))
      good = param.emitError() << "gradient of " << param.getSymName() << " is not stored";
  if (failed(good) || settings.accumulate > 1) return good;
  llvm::DenseMap<StringRef, Operation *> exchanges;
  step.walk([&](ExchangeOp exchange) {
    if (!exchanges.try_emplace(exchange.getBucket(), exchange).second)
      good = exchange.emitError() << "second exchange of " << exchange.getBucket();
  });
  for (auto bucket : module.getOps<BucketOp>()) {
    Operation *exchange = exchanges.lookup(bucket.getSymName());
    if (!exchange) return bucket.emitError() << "bucket " << bucket.getSymName() << " is not exchanged";
    for (auto name : bucket.getParams().getAsRange<FlatSymbolRefAttr>())
      if (exchange->isBeforeInBlock(stores.lookup(name.getValue())))
        return exchange->emitError() << "comes before the gradient of " << name << " is stored";
  }
  return good;
}

} // namespace

LogicalResult checkPartition(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step) return module.emitError() << "no function @step";
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (step.getResultAttr(i, "msamp.grad")) return step.emitError() << "result " << i << " is still a gradient";
  if (failed(checkBuckets(module))) return failure();
  return checkStores(module, step);
}

LogicalResult checkOptimizer(ModuleOp module) {
  func::FuncOp programs[3];
  constexpr StringRef names[3] = {"micro_step", "eval", "update"};
  for (auto [i, name] : llvm::enumerate(names)) {
    programs[i] = module.lookupSymbol<func::FuncOp>(name);
    if (!programs[i]) return module.emitError() << "no function @" << name;
  }
  auto [microStep, eval, update] = programs;
  if (module.lookupSymbol("step")) return module.emitError() << "@step is still there beside @micro_step and @eval";
  if (microStep.getNumResults() != 1) return microStep.emitError() << "returns " << microStep.getNumResults() << " values, expected the loss";
  if (update.getNumArguments() || update.getNumResults()) return update.emitError() << "takes or returns values";
  if (failed(checkStores(module, microStep))) return failure();
  LogicalResult good = success();
  eval.walk([&](Operation *op) {
    if (isa<StoreGradOp, ExchangeOp, RecordAmaxOp, UpdateOp, TrackOp>(op))
      good = op->emitError() << "changes state in @eval";
  });
  unsigned norms = 0, updates[2] = {0, 0}, exchanges = 0;
  for (Operation &op : update.getBody().front()) {
    norms += isa<GradNormOp>(op);
    exchanges += isa<ExchangeOp>(op);
    if (auto one = dyn_cast<UpdateOp>(op)) {
      ++updates[unsigned(one.getStateClass())];
      if (!norms) good = op.emitError() << "comes before msamp.grad_norm";
    }
  }
  if (norms != 1) good = update.emitError() << norms << " msamp.grad_norm, expected one";
  bool present[2] = {false, false};
  for (auto param : module.getOps<ParameterOp>())
    if (param.getTrained()) present[unsigned(*param.getStateClass())] = true;
  for (StateClass state : {StateClass::Plain, StateClass::Scaled})
    if (updates[unsigned(state)] != unsigned(present[unsigned(state)]))
      good = update.emitError() << updates[unsigned(state)] << " updates of class " << stringifyStateClass(state);
  unsigned buckets = std::distance(module.getOps<BucketOp>().begin(), module.getOps<BucketOp>().end());
  unsigned expected = partition::StepSettings(module).accumulate > 1 ? buckets : 0;
  if (exchanges != expected) good = update.emitError() << exchanges << " exchanges, expected " << expected;
  return good;
}

} // namespace msamp::verify
