// The exchange of each bucket behind the store of its last gradient.
#include "passes/partition/Passes.h"
#include "passes/partition/Types.h"

using namespace mlir;

namespace msamp::partition {

#define GEN_PASS_DEF_EXCHANGEGRADIENTS
#include "passes/partition/Passes.h.inc"

namespace {

struct ExchangeGradients : impl::ExchangeGradientsBase<ExchangeGradients> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    StepSettings settings(module);
    if (!step || settings.accumulate > 1) return;
    llvm::DenseMap<StringRef, StoreGradOp> stores;
    step.walk([&](StoreGradOp store) { stores[store.getParam()] = store; });
    for (auto bucket : module.getOps<BucketOp>()) {
      Operation *last = nullptr;
      for (auto name : bucket.getParams().getAsRange<FlatSymbolRefAttr>()) {
        Operation *store = stores.lookup(name.getValue());
        if (!store) {
          bucket.emitError() << "no msamp.store_grad of " << name << ", which is in bucket " << bucket.getSymName();
          return signalPassFailure();
        }
        if (!last || last->isBeforeInBlock(store)) last = store;
      }
      if (!last) continue;
      OpBuilder builder(&getContext());
      builder.setInsertionPointAfter(last);
      Type wire = elementOf(&getContext(), settings.storage(stringifyStateClass(bucket.getStateClass())).wire);
      ExchangeOp::create(builder, last->getLoc(), bucket.getSymName(), wire, settings.zero);
    }
  }
};

} // namespace
} // namespace msamp::partition
