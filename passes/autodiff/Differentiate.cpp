// Reverse-mode differentiation of @forward.
#include "ir/Msamp/Expr.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipeline.h"
#include "passes/autodiff/Gradients.h"
#include "passes/autodiff/Passes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace msamp::autodiff {

#define GEN_PASS_DEF_DIFFERENTIATE
#include "passes/autodiff/Passes.h.inc"

namespace {

bool isFloat(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type && isa<FloatType>(type.getElementType());
}

// ONNX node of an op, for messages.
std::string nodeOf(Operation *op) {
  std::string name;
  op->getLoc()->walk([&](Location l) {
    if (auto named = dyn_cast<NameLoc>(l)) {
      name = named.getName().str();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return name.empty() ? "unnamed" : name;
}

struct Differentiate : impl::DifferentiateBase<Differentiate> {
  using DifferentiateBase::DifferentiateBase;

  SymbolTable *symbols = nullptr;
  llvm::DenseSet<Value> varied; // depend on a trained parameter
  llvm::DenseSet<Value> useful; // reach the loss

  bool active(Value v) const { return isFloat(v) && varied.contains(v) && useful.contains(v); }

  void analyse(func::FuncOp func, Value loss) {
    Block &body = func.getBody().front();
    for (Operation &op : body) {
      bool depends = llvm::any_of(op.getOperands(), [&](Value v) { return varied.contains(v); });
      if (auto get = dyn_cast<GetOp>(op))
        depends = symbols->lookup<ParameterOp>(get.getParam()).getTrained();
      if (!depends)
        continue;
      for (Value v : op.getResults())
        if (isFloat(v))
          varied.insert(v);
    }
    useful.insert(loss);
    for (Operation &op : llvm::reverse(body))
      if (llvm::any_of(op.getResults(), [&](Value v) { return useful.contains(v); }))
        for (Value v : op.getOperands())
          if (isFloat(v))
            useful.insert(v);
  }

  // Reports every op on the path that cannot be differentiated.
  LogicalResult check(func::FuncOp func) {
    bool good = true;
    for (Operation &op : func.getBody().front()) {
      if (isa<GetOp>(op) || llvm::none_of(op.getResults(), [&](Value v) { return active(v); }))
        continue;
      if (!isa<DifferentiableOpInterface>(op)) {
        op.emitError() << "no derivative rule for " << op.getName() << " of ONNX node '" << nodeOf(&op)
                       << "', which lies between a trained parameter and the loss; freeze the parameters before it "
                          "with --freeze or add a rule";
        good = false;
      }
      if (auto attention = dyn_cast<AttentionOp>(op); attention && attention.getBias() && active(attention.getBias())) {
        op.emitError() << "no derivative rule for the bias of attention node '" << nodeOf(&op)
                       << "', which depends on a trained parameter; freeze that parameter with --freeze";
        good = false;
      }
    }
    return success(good);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable table(module);
    symbols = &table;
    auto func = module.lookupSymbol<func::FuncOp>("forward");
    if (!func || func.isExternal()) {
      module.emitError() << "no function @forward to differentiate";
      return signalPassFailure();
    }
    auto exit = cast<func::ReturnOp>(func.getBody().front().getTerminator());
    if (exit.getNumOperands() == 0 || !isFloat(exit.getOperand(0)) || tensorTypeOf(exit.getOperand(0)).getRank() != 0) {
      func.emitError() << "the first result of @forward is no scalar loss; run the loss phase first";
      return signalPassFailure();
    }
    Value loss = exit.getOperand(0);
    varied.clear();
    useful.clear();
    analyse(func, loss);
    if (failed(check(func)))
      return signalPassFailure();
    if (!active(loss)) {
      mlir::emitError(loss.getLoc()) << "the loss depends on no trained parameter, so there is nothing to train; take "
                                        "another output (--loss), or train more initializers (--train)";
      return signalPassFailure();
    }
    differentiate(module, func, exit, loss);
  }

  void differentiate(ModuleOp module, func::FuncOp func, func::ReturnOp exit, Value loss) {
    MLIRContext *context = &getContext();
    OpBuilder builder(exit);
    GradientSums sums(builder);
    llvm::MapVector<StringAttr, SmallVector<Value>> ofParameter;

    SmallVector<Operation *> forwardOps;
    for (Operation &op : func.getBody().front().without_terminator())
      forwardOps.push_back(&op);
    if (active(loss)) {
      auto one =
          DenseElementsAttr::get(tensorTypeOf(loss), builder.getFloatAttr(tensorTypeOf(loss).getElementType(), 1.0));
      sums.add(loss, arith::ConstantOp::create(builder, gradientLoc(loss.getLoc()), one));
    }
    for (Operation *op : llvm::reverse(forwardOps)) {
      SmallVector<Value> resultGrads;
      for (Value v : op->getResults())
        resultGrads.push_back(active(v) ? sums.take(v) : Value());
      if (llvm::none_of(resultGrads, [](Value v) { return v != nullptr; }))
        continue;
      if (auto get = dyn_cast<GetOp>(op)) {
        ofParameter[get.getParamAttr().getAttr()].push_back(resultGrads[0]);
        continue;
      }
      SmallVector<bool> wanted;
      for (Value v : op->getOperands())
        wanted.push_back(active(v));
      SmallVector<Value> operandGrads;
      Operation *before = exit->getPrevNode();
      cast<DifferentiableOpInterface>(op).buildVJP(builder, resultGrads, wanted, operandGrads);
      Location loc = gradientLoc(op->getLoc());
      for (Operation *made = before->getNextNode(); made != exit; made = made->getNextNode())
        made->setLoc(loc);
      for (auto [operand, grad] : llvm::zip(op->getOperands(), operandGrads))
        if (grad)
          sums.add(operand, grad);
    }

    SmallVector<Value> results = llvm::to_vector(exit.getOperands());
    SmallVector<Attribute> attrs;
    for (unsigned i = 0; i < results.size(); ++i) {
      DictionaryAttr dict = func.getResultAttrDict(i);
      attrs.push_back(dict ? dict : DictionaryAttr::get(context));
    }
    for (auto param : module.getOps<ParameterOp>()) {
      if (!param.getTrained())
        continue;
      auto found = ofParameter.find(param.getSymNameAttr());
      if (found == ofParameter.end()) {
        remark::missed(param.getLoc(), remark::RemarkOpts::name("zero-gradient").category("autodiff"))
            << "parameter " << param.getSymName() << " does not reach the loss: its gradient is zero";
        auto type = param.getTensorType();
        auto zeros = DenseElementsAttr::get(type, builder.getZeroAttr(type.getElementType()));
        results.push_back(arith::ConstantOp::create(builder, gradientLoc(param.getLoc()), zeros));
      } else {
        results.push_back(sums.balanced(found->second, gradientLoc(param.getLoc())));
      }
      attrs.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr("msamp.grad", FlatSymbolRefAttr::get(param.getSymNameAttr()))));
    }
    exit.getOperandsMutable().assign(results);
    func.setType(FunctionType::get(context, func.getArgumentTypes(), ValueRange(results).getTypes()));
    func.setResAttrsAttr(builder.getArrayAttr(attrs));
    func.setSymName("step");
  }
};

} // namespace

void buildPipeline(OpPassManager &pm, const PipelineOptions &) {
  pm.addPass(createDifferentiate());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

} // namespace msamp::autodiff
