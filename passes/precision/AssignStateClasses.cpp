// Decides the state class of each trained parameter and says which matrices miss FP8, and why.
#include "passes/partition/StateClasses.h"
#include "passes/precision/Analysis.h"
#include "passes/precision/Passes.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;

namespace msamp::precision {

#define GEN_PASS_DEF_ASSIGNSTATECLASSES
#include "passes/precision/Passes.h.inc"

namespace {

constexpr int64_t kFp8Multiple = 16;
// A margin of 8 leaves E4M3 half of its 17 binades; more is a mistake.
constexpr int64_t kMaxMargin = 8;

struct AssignStateClasses : impl::AssignStateClassesBase<AssignStateClasses> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!partition::isLevel(level)) {
      module.emitError() << "level '" << level << "' is none of fp32, bf16, O1, O2, O3";
      return signalPassFailure();
    }
    if (!llvm::is_contained({"delayed", "current", "rowwise", "block"}, recipe)) {
      module.emitError() << "recipe '" << recipe << "' is none of delayed, current, rowwise, block";
      return signalPassFailure();
    }
    if (!margins.empty() && margins.size() != getMaxEnumValForSiteKind() + 1) {
      module.emitError() << "margins are " << margins.size() << " numbers instead of one a kind of site (3)";
      return signalPassFailure();
    }
    if (llvm::any_of(margins, [](int64_t margin) { return margin < 0 || margin > kMaxMargin; })) {
      module.emitError() << "a margin is outside 0 to " << kMaxMargin;
      return signalPassFailure();
    }
    if (fp8Head && !partition::isFp8Level(level)) {
      module.emitError() << "an FP8 head needs a level with FP8 GEMMs (O1, O2, O3), not " << level;
      return signalPassFailure();
    }
    func::FuncOp step = findStep(module);
    if (!step)
      return signalPassFailure();
    Builder builder(&getContext());
    if (!margins.empty())
      module->setAttr("msamp.margins", builder.getDenseI64ArrayAttr(ArrayRef<int64_t>(margins)));
    module->setAttr("msamp.level", builder.getStringAttr(level));
    module->setAttr("msamp.recipe", builder.getStringAttr(recipe));
    module->setAttr("msamp.accumulate", builder.getI64IntegerAttr(accumulate));

    collectUses(step);
    head = findHead(step);
    ParameterOp headWeight = fp8Head ? weightOf(head) : ParameterOp();
    if (fp8Head && !headWeight)
      step.emitWarning() << "the head stays in BF16: the loss comes from no product with a trained parameter";
    for (auto param : module.getOps<ParameterOp>()) {
      if (!param.getTrained())
        continue;
      param.setStateClass(StateClass::Plain);
      bool isMatrix = param.getRole() == ParameterRole::Matrix, isHead = param == headWeight;
      if (!partition::isFp8Level(level) || !(isMatrix || isHead))
        continue;
      std::string name = param.getSymName().str(), reason = missesFp8(param, isHead);
      auto options = remark::RemarkOpts::name("fp8-weight").category("precision");
      Location loc = usedBy[name].empty() ? param.getLoc() : usedBy[name].front()->getLoc();
      if (!reason.empty()) {
        remark::missed(loc, options) << name + " kept in BF16: " + reason;
        if (isHead)
          emitWarning(loc) << "the head stays in BF16: " << name << ": " << reason;
      } else if (isMatrix) {
        param.setStateClass(StateClass::Scaled);
        remark::passed(loc, options) << name + ": FP8 GEMMs and scaled state";
      } else {
        // Lookups read the table, too: it keeps the plain class's precision.
        param.setFp8Gemms(true);
        remark::passed(loc, options) << name + ": FP8 GEMMs of a table with plain state";
      }
    }
  }

  // The trained parameter that a product multiplies by, or null.
  static ParameterOp weightOf(MatMulOp product) {
    if (!product)
      return {};
    for (Value operand : {product.getB(), product.getA()}) {
      bool flips;
      GetOp get = parameterBehind(operand, flips);
      auto param = get ? SymbolTable::lookupNearestSymbolFrom<ParameterOp>(get, get.getParamAttr()) : ParameterOp();
      if (param && param.getTrained())
        return param;
    }
    return {};
  }

  void collectUses(func::FuncOp step) {
    step.walk([&](GetOp get) {
      SmallVector<Value> worklist{get.getResult()};
      while (!worklist.empty()) {
        Value value = worklist.pop_back_val();
        for (Operation *user : value.getUsers()) {
          if (isa<TransposeOp>(user))
            worklist.push_back(user->getResult(0));
          else
            usedBy[get.getParam()].push_back(user);
        }
      }
    });
    for (auto &entry : usedBy)
      llvm::sort(entry.second, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  }

  // Why the parameter's GEMMs cannot be FP8; empty if they can. Those of an FP8 head can have any number of classes, which is
  // made a multiple later where GEMMs want that.
  std::string missesFp8(ParameterOp param, bool isFp8Head) {
    auto &users = usedBy[param.getSymName()];
    if (param.getTensorType().getRank() != 2)
      return "it is no matrix of rank 2";
    if (users.empty())
      return "the step does not read it";
    for (Operation *user : users) {
      if (isFp8Head && param.getRole() == ParameterRole::Table && isa<GatherOp>(user))
        continue;
      auto product = dyn_cast<MatMulOp>(user);
      if (!product)
        return ("it is read by " + user->getName().getStringRef()).str();
      if (product == head && !isFp8Head)
        return "its product is the head";
      auto a = tensorTypeOf(product.getA()), c = tensorTypeOf(product.getResult());
      if (c.getRank() != 2)
        return "its product is batched";
      bool flips;
      if (parameterBehind(product.getA(), flips) && parameterBehind(product.getB(), flips))
        return "both operands of its product are parameters";
      std::pair<const char *, int64_t> dims[] = {
          {"M", c.getDimSize(0)}, {"N", c.getDimSize(1)}, {"K", a.getDimSize(product.getTransposeA() ? 0 : 1)}};
      for (auto [name, size] : dims)
        if (size % kFp8Multiple && !(isFp8Head && size == tensorTypeOf(head.getResult()).getShape().back()))
          return std::string(name) + " = " + std::to_string(size) + " is not a multiple of " +
                 std::to_string(kFp8Multiple);
    }
    return {};
  }

  llvm::StringMap<SmallVector<Operation *>> usedBy;
  MatMulOp head;
};

} // namespace
} // namespace msamp::precision
