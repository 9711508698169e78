// @update: what happens once a step, after its micro-batches.
#include "passes/optimizer/Passes.h"
#include "passes/partition/Types.h"

using namespace mlir;

namespace msamp::optimizer {

#define GEN_PASS_DEF_BUILDUPDATE
#include "passes/optimizer/Passes.h.inc"

namespace {

struct BuildUpdate : impl::BuildUpdateBase<BuildUpdate> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (optimizer != "adamw" && optimizer != "adam" && optimizer != "sgd") {
      module.emitError() << "optimizer '" << optimizer << "' is none of adamw, adam, sgd";
      return signalPassFailure();
    }
    if (module.lookupSymbol("update")) {
      module.emitError() << "there is an @update already";
      return signalPassFailure();
    }
    OpBuilder builder(&getContext());
    module->setAttr("msamp.optimizer", builder.getStringAttr(optimizer));
    module->setAttr("msamp.history", builder.getI64IntegerAttr(history));
    partition::StepSettings settings(module);
    Location loc = NameLoc::get(builder.getStringAttr("optimizer"));

    bool present[2] = {false, false};
    for (auto param : module.getOps<ParameterOp>())
      if (param.getTrained() && param.getStateClass()) present[unsigned(*param.getStateClass())] = true;

    builder.setInsertionPointToEnd(module.getBody());
    auto update = func::FuncOp::create(builder, loc, "update", builder.getFunctionType({}, {}));
    builder.setInsertionPointToStart(update.addEntryBlock());
    if (settings.accumulate > 1)
      for (auto bucket : module.getOps<BucketOp>()) {
        auto storage = settings.storage(stringifyStateClass(bucket.getStateClass()));
        ExchangeOp::create(builder, loc, bucket.getSymName(), partition::elementOf(&getContext(), storage.wire),
                           settings.zero);
      }
    GradNormOp::create(builder, loc);
    for (StateClass state : {StateClass::Scaled, StateClass::Plain})
      if (present[unsigned(state)]) UpdateOp::create(builder, loc, state, optimizer);
    if (settings.zero > 0)
      for (StateClass state : {StateClass::Scaled, StateClass::Plain})
        if (present[unsigned(state)]) GatherWeightsOp::create(builder, loc, state);
    if (!module.getOps<SiteOp>().empty()) UpdateSitesOp::create(builder, loc, history);
    func::ReturnOp::create(builder, loc);
  }
};

} // namespace
} // namespace msamp::optimizer
