// Flat spaces, buckets, and a store of each gradient where it is complete.
#include "passes/partition/Passes.h"
#include "passes/partition/Types.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace msamp::partition {

#define GEN_PASS_DEF_PLACEGRADIENTS
#include "passes/partition/Passes.h.inc"

namespace {

struct Gradient {
  unsigned result;   // of @step
  unsigned complete; // position of its definition
  mutable ParameterOp param; // accessors of ops are not const
  Value value;
};

struct Bucket {
  StateClass state;
  SmallVector<Attribute> params;
  int64_t offset, elements;
  unsigned complete;
};

struct PlaceGradients : impl::PlaceGradientsBase<PlaceGradients> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    if (!step || !step.getBody().hasOneBlock()) {
      module.emitError() << "no function @step of one block: run the autodiff phase first";
      return signalPassFailure();
    }
    Builder builder(&getContext());
    module->setAttr("msamp.zero", builder.getI64IntegerAttr(zero));
    StepSettings settings(module);
    SmallVector<Gradient> gradients;
    if (failed(collect(module, step, gradients))) return signalPassFailure();
    declareBuckets(step, settings, gradients);
    store(step, settings, gradients);
  }

  LogicalResult collect(ModuleOp module, func::FuncOp step, SmallVectorImpl<Gradient> &gradients) {
    Block &body = step.getBody().front();
    llvm::DenseMap<Operation *, unsigned> order;
    for (auto [i, op] : llvm::enumerate(body)) order[&op] = i + 1;
    llvm::DenseSet<Operation *> seen;
    for (unsigned i = 0; i < step.getNumResults(); ++i) {
      auto name = step.getResultAttrOfType<FlatSymbolRefAttr>(i, "msamp.grad");
      if (!name) continue;
      auto param = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(step, name);
      if (!param) return step.emitError() << "result " << i << " is the gradient of " << name << ", which is no msamp.parameter";
      if (!param.getStateClass())
        return param.emitError() << "parameter " << param.getSymName() << " has no state class: run the precision phase first";
      if (!seen.insert(param).second) return step.emitError() << "two gradients of " << name;
      Value value = body.getTerminator()->getOperand(i);
      gradients.push_back({i, order.lookup(value.getDefiningOp()), param, value});
    }
    for (auto param : module.getOps<ParameterOp>())
      if (param.getTrained() && !seen.contains(param))
        return param.emitError() << "trained parameter " << param.getSymName() << " has no gradient among the results of @step";
    llvm::stable_sort(gradients, [](const Gradient &a, const Gradient &b) { return a.complete < b.complete; });
    return success();
  }

  void declareBuckets(func::FuncOp step, const StepSettings &settings, ArrayRef<Gradient> gradients) {
    SmallVector<Bucket> buckets;
    for (StateClass state : {StateClass::Scaled, StateClass::Plain}) {
      int64_t bytes = bytesOf(settings.storage(stringifyStateClass(state)).grad), limit = (bucketMiB << 20) / bytes;
      int64_t offset = 0;
      Bucket *open = nullptr;
      for (const Gradient &g : gradients) {
        if (*g.param.getStateClass() != state) continue;
        int64_t size = padded(g.param.getTensorType().getNumElements());
        if (!open || open->elements + size > limit) {
          buckets.push_back({state, {}, offset, 0, 0});
          open = &buckets.back();
        }
        open->params.push_back(FlatSymbolRefAttr::get(g.param.getSymNameAttr()));
        open->elements += size;
        open->complete = g.complete;
        offset += size;
      }
    }
    llvm::stable_sort(buckets, [](const Bucket &a, const Bucket &b) { return a.complete < b.complete; });
    OpBuilder builder(step);
    unsigned count[2] = {0, 0};
    for (const Bucket &b : buckets) {
      std::string name = ("bucket." + stringifyStateClass(b.state) + "." + Twine(count[unsigned(b.state)]++)).str();
      while (SymbolTable::lookupSymbolIn(step->getParentOp(), name)) name += "_";
      BucketOp::create(builder, step.getLoc(), name, b.state, builder.getArrayAttr(b.params), b.offset, b.elements);
    }
  }

  void store(func::FuncOp step, const StepSettings &settings, ArrayRef<Gradient> gradients) {
    Operation *ret = step.getBody().front().getTerminator();
    OpBuilder builder(&getContext());
    llvm::BitVector stored(step.getNumResults());
    for (const Gradient &g : gradients) {
      builder.setInsertionPointAfterValue(g.value);
      Value scale;
      if (auto quantize = g.value.getDefiningOp<QuantizeOp>()) scale = quantize.getScale();
      StoreGradOp::create(builder, g.value.getLoc(), g.param.getSymName(), g.value, scale, settings.accumulate > 1);
      stored.set(g.result);
    }
    ret->eraseOperands(stored);
    (void)step.eraseResults(stored);
  }
};

} // namespace
} // namespace msamp::partition
