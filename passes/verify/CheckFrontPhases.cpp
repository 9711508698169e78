// Checks after import, raise, loss, autodiff and recompute.
#include "ir/Msamp/Expr.h"
#include "passes/verify/Checks.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace msamp::verify {
namespace {

FailureOr<func::FuncOp> onlyFunction(ModuleOp module, StringRef name) {
  func::FuncOp found;
  for (auto func : module.getOps<func::FuncOp>()) {
    if (func.getSymName() != name)
      return func.emitError() << "unexpected function; @" << name << " should be the only one";
    found = func;
  }
  if (!found || found.isExternal())
    return module.emitError() << "no function @" << name;
  if (!llvm::hasSingleElement(found.getBody()))
    return found.emitError() << "has more than one block";
  return found;
}

bool isStatic(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

LogicalResult checkNamesAndShapes(func::FuncOp func) {
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    if (!func.getArgAttrOfType<StringAttr>(i, "msamp.name"))
      return func.emitError() << "argument " << i << " has no msamp.name";
    if (!isStatic(func.getArgument(i).getType()))
      return func.emitError() << "argument " << i << " has no static shape: " << func.getArgument(i).getType();
  }
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (!func.getResultAttr(i, "msamp.name") && !func.getResultAttr(i, "msamp.grad"))
      return func.emitError() << "result " << i << " has neither msamp.name nor msamp.grad";
  LogicalResult good = success();
  for (Operation &op : func.getBody().front())
    for (Value v : op.getResults())
      if (!isStatic(v.getType()))
        good = op.emitError() << "result of type " << v.getType() << " has no static shape";
  return good;
}

LogicalResult checkScalarLoss(func::FuncOp func) {
  auto name = func.getNumResults() ? func.getResultAttrOfType<StringAttr>(0, "msamp.name") : StringAttr();
  if (!name || name.getValue() != "loss")
    return func.emitError() << "first result is not the loss";
  auto type = dyn_cast<RankedTensorType>(func.getResultTypes().front());
  if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType()))
    return func.emitError() << "the loss has type " << func.getResultTypes().front()
                            << ", expected a float tensor of rank 0";
  return success();
}

} // namespace

LogicalResult checkImport(ModuleOp module) {
  FailureOr<func::FuncOp> func = onlyFunction(module, "forward");
  if (failed(func))
    return failure();
  return checkNamesAndShapes(*func);
}

// What raise leaves: no op that constants alone determine, no guard against NaN of a softmax, layout changes that
// cannot be merged further.
LogicalResult checkRaise(ModuleOp module) {
  if (failed(checkImport(module)))
    return failure();
  LogicalResult good = success();
  module.walk([&](Operation *op) {
    if (auto reshape = dyn_cast<ReshapeOp>(op); reshape && reshape.getInput().getDefiningOp<ReshapeOp>())
      good = op->emitError() << "reshape of a reshape is left after raise";
    if (auto transpose = dyn_cast<TransposeOp>(op); transpose && transpose.getInput().getDefiningOp<TransposeOp>())
      good = op->emitError() << "transpose of a transpose is left after raise";
    if (auto compare = dyn_cast<arith::CmpFOp>(op);
        compare && compare.getLhs() == compare.getRhs() && compare.getLhs().getDefiningOp<SoftmaxOp>())
      good = op->emitError() << "NaN guard of a softmax is left after raise";
    bool folds =
        op->hasTrait<OpTrait::Elementwise>() && op->getNumOperands() && llvm::all_of(op->getOperands(), [](Value v) {
          auto constant = v.getDefiningOp<arith::ConstantOp>();
          return constant && isa<SplatElementsAttr>(constant.getValue());
        });
    if (folds && isa<arith::ArithDialect>(op->getDialect()))
      good = op->emitError() << "op on constants is left after raise";
  });
  return good;
}

LogicalResult checkLoss(ModuleOp module) {
  FailureOr<func::FuncOp> func = onlyFunction(module, "forward");
  if (failed(func) || failed(checkNamesAndShapes(*func)))
    return failure();
  return checkScalarLoss(*func);
}

LogicalResult checkGradients(ModuleOp module) {
  FailureOr<func::FuncOp> found = onlyFunction(module, "step");
  if (failed(found) || failed(checkNamesAndShapes(*found)) || failed(checkScalarLoss(*found)))
    return failure();
  func::FuncOp func = *found;
  llvm::MapVector<StringAttr, unsigned> gradients;
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (auto grad = func.getResultAttrOfType<FlatSymbolRefAttr>(i, "msamp.grad"))
      if (!gradients.insert({grad.getAttr(), i}).second)
        return func.emitError() << "two results are the gradient of " << grad;
  LogicalResult good = success();
  for (auto param : module.getOps<ParameterOp>()) {
    auto grad = gradients.find(param.getSymNameAttr());
    if (!param.getTrained()) {
      if (grad != gradients.end())
        good = param.emitError() << "frozen parameter has a gradient";
      continue;
    }
    if (grad == gradients.end()) {
      good = param.emitError() << "trained parameter has no gradient among the results of @step";
      continue;
    }
    Type type = func.getResultTypes()[grad->second];
    if (type != param.getTensorType())
      good = func.emitError() << "gradient of " << param.getSymName() << " has type " << type << ", the parameter "
                              << param.getTensorType();
  }
  return good;
}

} // namespace msamp::verify
