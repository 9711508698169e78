// Makes the forward function return a scalar loss, synthesised from its first output and labels or its own output.
#include "ir/Msamp/Expr.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipeline.h"
#include "passes/loss/Passes.h"

using namespace mlir;

namespace msamp::loss {

#define GEN_PASS_DEF_ADDLOSS
#include "passes/loss/Passes.h.inc"

namespace {

StringRef nameOf(DictionaryAttr attrs) {
  auto name = attrs ? attrs.getAs<StringAttr>("msamp.name") : StringAttr();
  return name ? name.getValue() : StringRef();
}

// max(x, 0) - x y + log(1 + exp(-|x|)): the binary cross-entropy of a logit, without overflow. |x| is the maximum of x
// and -x, whose slope at 0 is -1: with the slope 0 of max(x, 0) the sum has the true one there, 1/2 - y.
Expr logitCrossEntropy(const Expr &x, const Expr &y) {
  Expr zero = x.like(0.0);
  Expr positive = x.make<arith::MaximumFOp>(x.value, zero.value);
  Expr negative = -x;
  Expr magnitude = x.make<arith::MaximumFOp>(x.value, negative.value);
  Expr decayed = (-magnitude).exp();
  Expr tail = decayed.make<math::Log1pOp>(decayed.value);
  Expr linear = positive - x * y;
  return linear + tail;
}

Expr meanOfAll(const Expr &x) {
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  return x.sum(dims) * (1.0 / double(x.type().getNumElements()));
}

struct AddLoss : impl::AddLossBase<AddLoss> {
  using AddLossBase::AddLossBase;

  func::FuncOp forward;
  func::ReturnOp exit;
  SmallVector<Value> outputs;
  SmallVector<Attribute> outputAttrs;

  // The input with the targets, added when the graph has none of that name.
  FailureOr<Value> labelsOfType(RankedTensorType type) {
    MLIRContext *context = &getContext();
    for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
      if (nameOf(forward.getArgAttrDict(i)) != labels)
        continue;
      auto found = dyn_cast<RankedTensorType>(forward.getArgument(i).getType());
      bool sameKind = found && isa<IntegerType>(found.getElementType()) == isa<IntegerType>(type.getElementType());
      if (!sameKind || found.getShape() != type.getShape())
        return forward.emitError() << "input '" << labels << "' has type " << forward.getArgument(i).getType()
                                   << ", but " << loss << " needs labels of type " << type
                                   << "; name another input with --labels";
      forward.setArgAttr(i, "msamp.labels", UnitAttr::get(context));
      return forward.getArgument(i);
    }
    NamedAttrList attrs;
    attrs.set("msamp.labels", UnitAttr::get(context));
    attrs.set("msamp.name", StringAttr::get(context, labels));
    unsigned index = forward.getNumArguments();
    if (failed(forward.insertArgument(index, type, attrs.getDictionary(context), forward.getLoc())))
      return failure();
    return forward.getArgument(index);
  }

  FailureOr<Value> takeOutput(StringRef name) {
    for (unsigned i = 0; i < outputs.size(); ++i) {
      if (nameOf(cast<DictionaryAttr>(outputAttrs[i])) != name)
        continue;
      Value value = outputs[i];
      auto type = tensorTypeOf(value);
      if (!isa<FloatType>(type.getElementType()) || type.getNumElements() != 1)
        return forward.emitError() << "output '" << name << "' has type " << type
                                   << ", a loss has one floating-point element";
      outputs.erase(outputs.begin() + i);
      outputAttrs.erase(outputAttrs.begin() + i);
      OpBuilder builder(exit);
      return Expr(builder, value.getLoc(), value).reshape({}).value;
    }
    InFlightDiagnostic error = forward.emitError()
                               << "the graph has no output '" << name << "' to use as the loss; it has";
    for (Attribute attrs : outputAttrs)
      error << " '" << nameOf(cast<DictionaryAttr>(attrs)) << "'";
    return error;
  }

  FailureOr<Value> synthesise() {
    OpBuilder builder(exit);
    Location loc = NameLoc::get(StringAttr::get(&getContext(), "loss"));
    Expr out(builder, loc, outputs.front());
    if (!isa<FloatType>(out.type().getElementType()))
      return forward.emitError() << "the first output has type " << out.type() << ", " << loss << " needs floats";
    Type f32 = builder.getF32Type();
    if (out.type().getElementType() != f32) {
      auto type = RankedTensorType::get(out.type().getShape(), f32);
      out = out.type().getElementTypeBitWidth() < 32 ? out.make<arith::ExtFOp>(type, out.value)
                                                     : out.make<arith::TruncFOp>(type, out.value);
    }
    ArrayRef<int64_t> shape = out.type().getShape();
    if (loss == "cross-entropy") {
      if (shape.empty())
        return forward.emitError() << "the first output is a scalar; cross-entropy needs [.., classes]";
      FailureOr<Value> targets = labelsOfType(RankedTensorType::get(shape.drop_back(), builder.getI64Type()));
      if (failed(targets))
        return failure();
      // Of square images the classes are last where the two dimensions before them are equal.
      if (shape.size() > 3 && !(shape.size() == 4 && shape[1] == shape[2] && shape[2] != shape[3]))
        exit.emitWarning() << "cross-entropy takes the last dimension of the first output, of " << shape.back()
                           << " values, as its classes; logits that are [batch, classes, height, width] have to be "
                              "permuted before they are exported";
      int64_t classes = shape.back(), rows = out.type().getNumElements() / classes;
      Expr logits = out.reshape({rows, classes});
      Expr flat = Expr(builder, loc, *targets).reshape({rows});
      auto scalar = RankedTensorType::get({}, f32);
      auto op = CrossEntropyOp::create(builder, loc, scalar, RankedTensorType::get({rows}, f32), scalar, logits.value,
                                       flat.value, -100);
      return op.getLoss();
    }
    FailureOr<Value> targets = labelsOfType(out.type());
    if (failed(targets))
      return failure();
    Expr y(builder, loc, *targets);
    if (loss == "bce")
      return meanOfAll(logitCrossEntropy(out, y)).value;
    Expr difference = out - y;
    return meanOfAll(difference * difference).value;
  }

  void runOnOperation() override {
    forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward || forward.isExternal()) {
      getOperation().emitError() << "no function @forward to add a loss to";
      return signalPassFailure();
    }
    StringRef kind = loss;
    if (kind != "cross-entropy" && kind != "mse" && kind != "bce" && !kind.starts_with("output:")) {
      forward.emitError() << "unknown loss '" << kind << "'; use cross-entropy, mse, bce or output:NAME";
      return signalPassFailure();
    }
    exit = cast<func::ReturnOp>(forward.getBody().front().getTerminator());
    if (exit.getNumOperands() == 0) {
      forward.emitError() << "the graph has no output";
      return signalPassFailure();
    }
    outputs = llvm::to_vector(exit.getOperands());
    outputAttrs.clear();
    for (unsigned i = 0; i < outputs.size(); ++i) {
      DictionaryAttr attrs = forward.getResultAttrDict(i);
      outputAttrs.push_back(attrs ? attrs : DictionaryAttr::get(&getContext()));
    }
    FailureOr<Value> value = kind.consume_front("output:") ? takeOutput(kind) : synthesise();
    if (failed(value))
      return signalPassFailure();

    if (llvm::any_of(outputAttrs, [](Attribute a) { return nameOf(cast<DictionaryAttr>(a)) == "loss"; })) {
      forward.emitError() << "an output of the graph is called 'loss', as the loss to train on is; train on that one "
                             "with --loss output:loss, or rename it in the model";
      return signalPassFailure();
    }
    Builder builder(&getContext());
    outputs.insert(outputs.begin(), *value);
    outputAttrs.insert(outputAttrs.begin(),
                       builder.getDictionaryAttr(builder.getNamedAttr("msamp.name", builder.getStringAttr("loss"))));
    exit.getOperandsMutable().assign(outputs);
    forward.setType(FunctionType::get(&getContext(), forward.getArgumentTypes(), ValueRange(outputs).getTypes()));
    forward.setResAttrsAttr(builder.getArrayAttr(outputAttrs));
    getOperation()->setAttr("msamp.loss", builder.getStringAttr(loss));
  }
};

} // namespace

void buildPipeline(OpPassManager &pm, const PipelineOptions &options) {
  AddLossOptions pass;
  pass.loss = options.loss;
  pass.labels = options.labels;
  pm.addPass(createAddLoss(pass));
  pm.addPass(createCanonicalizerPass());
}

} // namespace msamp::loss
