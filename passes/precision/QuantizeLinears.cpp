// The three GEMMs of each linear layer in FP8: fprop (x, w), dgrad (dy, w), wgrad (x, dy).
#include "passes/partition/StateClasses.h"
#include "passes/precision/Analysis.h"
#include "passes/precision/Fp8Builder.h"
#include "passes/precision/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace msamp::precision {

#define GEN_PASS_DEF_QUANTIZELINEARS
#include "passes/precision/Passes.h.inc"

namespace {

// One of a linear layer's GEMMs.
struct LinearGemm {
  enum Kind { Fprop, Dgrad, Wgrad } kind;
  MatMulOp op;
  ParameterOp param;
  bool weightIsA = false;                      // fprop and dgrad
  bool transposeA = false, transposeB = false; // with transposes of the weight folded in
};

// Attributes apart from the mark of a copy.
bool sameAttributes(Operation *p, Operation *q) {
  auto without = [](Operation *op) {
    NamedAttrList attrs(op->getAttrDictionary());
    attrs.erase("msamp.rebuilt");
    return attrs.getDictionary(op->getContext());
  };
  return without(p) == without(q);
}

// Whether two values are computed alike: same ops, attributes and leaves. Recompute's copies of a value are.
bool sameComputation(Value a, Value b, int depth = 64) {
  if (a == b)
    return true;
  Operation *p = a.getDefiningOp(), *q = b.getDefiningOp();
  if (!p || !q || depth == 0)
    return false;
  if (p->getName() != q->getName() || p->getNumOperands() != q->getNumOperands() || a.getType() != b.getType() ||
      cast<OpResult>(a).getResultNumber() != cast<OpResult>(b).getResultNumber() || !sameAttributes(p, q) ||
      !isMemoryEffectFree(p))
    return false;
  for (auto [x, y] : llvm::zip(p->getOperands(), q->getOperands()))
    if (!sameComputation(x, y, depth - 1))
      return false;
  return true;
}

struct QuantizeLinears : impl::QuantizeLinearsBase<QuantizeLinears> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    level = moduleString(module, "msamp.level", "fp32");
    recipe = moduleString(module, "msamp.recipe", "delayed");
    if (!partition::isFp8Level(level))
      return;
    func::FuncOp step = findStep(module);
    if (!step)
      return signalPassFailure();
    collectGemms(step);
    if (gemms.empty())
      module.emitRemark() << "level " << level << ": 0 of "
                          << llvm::range_size(step.getBody().front().getOps<MatMulOp>())
                          << " products are FP8 (convolutions are not counted); --remarks=- says why";
    MatMulOp headProduct = findHead(step);
    for (LinearGemm &gemm : gemms)
      if (gemm.op == headProduct)
        head = gemm.param;
    Fp8Builder fp8(module, recipe);
    for (LinearGemm &gemm : gemms)
      if (gemm.kind == LinearGemm::Wgrad)
        rewriteWgrad(fp8, gemm);
      else
        rewriteWithWeight(fp8, gemm);
    // Reads in the old type, and transposes of them, are dead now.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(step.getBody().front())))
      if (isa<GetOp, TransposeOp>(op) && op.use_empty())
        op.erase();
    step.walk([&](GetOp get) {
      auto param = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(get, get.getParamAttr());
      if (isScaled(param) && tensorTypeOf(get.getResult()).getElementType().isF32()) {
        get.emitError() << "scaled parameter " << get.getParam() << " is read outside of its linear layer";
        signalPassFailure();
      }
    });
  }

  static bool isScaled(ParameterOp param) { return param && param.getStateClass() == StateClass::Scaled; }
  static bool hasFp8Gemms(ParameterOp param) { return isScaled(param) || (param && param.getFp8Gemms()); }

  void collectGemms(func::FuncOp step) {
    llvm::DenseMap<Operation *, ParameterOp> wgrads;
    Operation *ret = step.getBody().front().getTerminator();
    for (auto [index, param] : gradientResults(step)) {
      if (!hasFp8Gemms(param))
        continue;
      SmallVector<MatMulOp> products;
      collectWeightGradients(ret->getOperand(index), products);
      for (MatMulOp product : products)
        wgrads[product] = param;
    }
    for (auto product : step.getBody().front().getOps<MatMulOp>()) {
      LinearGemm gemm{LinearGemm::Wgrad, product, {}, false, product.getTransposeA(), product.getTransposeB()};
      if (auto found = wgrads.find(product); found != wgrads.end()) {
        gemm.param = found->second;
        gemms.push_back(gemm);
        continue;
      }
      for (bool isA : {true, false}) {
        bool flips;
        GetOp get = parameterBehind(isA ? product.getA() : product.getB(), flips);
        if (!get)
          continue;
        auto param = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(product, get.getParamAttr());
        if (!hasFp8Gemms(param))
          continue;
        gemm.param = param;
        gemm.kind = isBackward(product) ? LinearGemm::Dgrad : LinearGemm::Fprop;
        gemm.weightIsA = isA;
        (isA ? gemm.transposeA : gemm.transposeB) ^= flips;
        gemms.push_back(gemm);
        break;
      }
    }
  }

  // The FP8 weight, tensor-wise. FP16 weights are quantised at each place that is far from the others: in the forward and in
  // the backward. The head's backward follows on its forward.
  Quantised weight(Fp8Builder &fp8, OpBuilder &builder, Location loc, LinearGemm &gemm) {
    ParameterOp param = gemm.param;
    bool rebuilt = param != head && (gemm.kind != LinearGemm::Fprop || isRebuilt(gemm.op));
    auto &known = weights[rebuilt][param];
    if (known.values && !rebuilt)
      return known;
    // A table is read in BF16; its scale is that of any other operand.
    if (!isScaled(param)) {
      auto table = GetOp::create(builder, loc, param.getTensorType(), param.getSymName());
      return known = fp8.tensorwise(builder, loc, table, (param.getSymName() + ".w").str(), SiteKind::Activation);
    }
    auto scalar = RankedTensorType::get({}, builder.getF32Type());
    auto type = param.getTensorType();
    Value scale = GetScaleOp::create(builder, loc, scalar, param.getSymName());
    auto e4m3 = Float8E4M3FNType::get(builder.getContext());
    if (level == "O3") {
      Value stored = GetOp::create(builder, loc, withElement(type, e4m3), param.getSymName());
      return known = {stored, scale};
    }
    Value stored = GetOp::create(builder, loc, withElement(type, builder.getF16Type()), param.getSymName());
    // Marked as recompute marks its copies, so that CSE does not merge it with the forward's and keep all weights
    // twice.
    auto mark = [&](Operation *op) {
      if (rebuilt)
        op->setAttr("msamp.rebuilt", builder.getUnitAttr());
    };
    if (byBlocks(param)) {
      Value &scales = squares[param];
      if (!scales)
        scales = Fp8Builder::squareScales(builder, loc, stored, scale);
      return known = {Fp8Builder::quantizeSquares(builder, loc, stored, scale, scales, mark), scales};
    }
    auto wide = withElement(type, builder.getF32Type());
    Value widened = arith::ExtFOp::create(builder, loc, wide, stored);
    Value everywhere = BroadcastOp::create(builder, loc, wide, scale, ArrayRef<int64_t>{});
    auto value = arith::DivFOp::create(builder, loc, widened, everywhere);
    Value amax = GetAmaxOp::create(builder, loc, scalar, param.getSymName());
    Value scale8 = ScaleOfOp::create(builder, loc, scalar, amax, e4m3, 0);
    auto quantize = QuantizeOp::create(builder, loc, withElement(type, e4m3), value, scale8);
    mark(value);
    mark(quantize);
    return known = {quantize.getResult(), scale8};
  }

  // The head's products are cut into chunks of tokens, which blocks along the tokens do not survive: their scales are current.
  bool byBlocks(ParameterOp param) const { return recipe == "block" && param != head; }

  // Whether the summed dimension is an operand's last one, so that a scale a row runs along the result's rows (columns for b).
  static bool kInnermost(bool isA, bool transposed) { return isA ? !transposed : transposed; }

  // An operand in blocks along the summed dimension, which becomes its innermost one. Beside the one in blocks along the other
  // dimension, where there is that: one byte a value is kept.
  static Quantised blocks(Fp8Builder &fp8, OpBuilder builder, Location loc, Value x, SiteKind kind, bool isA,
                          bool &transposed) {
    if (Operation *rows = fp8.rowwiseOp(x, kind)) {
      builder.setInsertionPointAfter(rows);
      loc = rows->getLoc();
    }
    bool turn = !kInnermost(isA, transposed);
    transposed = !isA;
    return fp8.blockwise(builder, loc, x, kind, turn);
  }

  void rewriteWithWeight(Fp8Builder &fp8, LinearGemm &gemm) {
    MatMulOp op = gemm.op;
    OpBuilder builder(op);
    Location loc = op.getLoc();
    bool forward = gemm.kind == LinearGemm::Fprop;
    Value x = gemm.weightIsA ? op.getB() : op.getA();
    SiteKind kind = forward ? SiteKind::Activation : SiteKind::ActivationGrad;
    std::string name = (gemm.param.getSymName() + (forward ? ".x" : ".dy")).str();

    Quantised input;
    bool xIsA = !gemm.weightIsA;
    bool &xTransposed = xIsA ? gemm.transposeA : gemm.transposeB;
    if (byBlocks(gemm.param)) {
      input = blocks(fp8, builder, loc, x, kind, xIsA, xTransposed);
    } else if (recipe == "rowwise" && kInnermost(xIsA, xTransposed)) {
      input = fp8.rowwise(builder, loc, x, kind);
    } else if (forward && isRebuilt(op)) {
      input = fp8.tensorwiseLike(builder, loc, x, originalOf(gemm.param, x), name, kind);
    } else {
      if (recipe == "rowwise")
        remark::missed(loc, remark::RemarkOpts::name("rowwise").category("precision"))
            << (gemm.param.getSymName() + ": one scale for the tensor, as its tokens lie along the last dimension")
                   .str();
      input = fp8.tensorwise(builder, loc, x, name, kind);
    }
    if (forward && !isRebuilt(op))
      inputs[gemm.param].push_back(x);

    Quantised w = weight(fp8, builder, loc, gemm);
    // Scales of blocks are [rows or columns of the result, summed dimension].
    if (auto type = tensorTypeOf(w.scale);
        type.getRank() == 2 && !kInnermost(gemm.weightIsA, gemm.weightIsA ? gemm.transposeA : gemm.transposeB)) {
      auto turned = RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, type.getElementType());
      w.scale = TransposeOp::create(builder, loc, turned, w.scale, ArrayRef<int64_t>{1, 0});
    }
    Quantised a = gemm.weightIsA ? w : input, b = gemm.weightIsA ? input : w;
    replace(builder, gemm, a, b);
  }

  void rewriteWgrad(Fp8Builder &fp8, LinearGemm &gemm) {
    MatMulOp op = gemm.op;
    OpBuilder builder(op);
    Location loc = op.getLoc();
    bool xIsA = isInput(gemm.param, op.getA()) || (!isInput(gemm.param, op.getB()) && !madeByBackward(op.getA()));
    Value x = xIsA ? op.getA() : op.getB(), dy = xIsA ? op.getB() : op.getA();
    StringRef param = gemm.param.getSymName();

    Quantised x8, dy8;
    if (byBlocks(gemm.param)) {
      x8 = blocks(fp8, builder, loc, x, SiteKind::Activation, xIsA, xIsA ? gemm.transposeA : gemm.transposeB);
      dy8 = blocks(fp8, builder, loc, dy, SiteKind::ActivationGrad, !xIsA, xIsA ? gemm.transposeB : gemm.transposeA);
      return replace(builder, gemm, xIsA ? x8 : dy8, xIsA ? dy8 : x8);
    }
    if (Value original = originalOf(gemm.param, x); original && original != x) {
      x8 = fp8.tensorwiseLike(builder, loc, x, original, (param + ".x").str(), SiteKind::Activation);
    } else {
      // Beside the row-wise one, in the forward: one kernel writes both, and one byte a value is kept.
      x8 = besideRows(fp8, builder, loc, x, param, SiteKind::Activation);
    }
    dy8 = besideRows(fp8, builder, loc, dy, param, SiteKind::ActivationGrad);
    replace(builder, gemm, xIsA ? x8 : dy8, xIsA ? dy8 : x8);
  }

  // The tensor-wise form of a value; where there is a row-wise one, as a part of the same op of the model.
  static Quantised besideRows(Fp8Builder &fp8, OpBuilder builder, Location loc, Value x, StringRef param,
                              SiteKind kind) {
    if (Operation *rows = fp8.rowwiseOp(x, kind)) {
      builder.setInsertionPointAfter(rows);
      loc = rows->getLoc();
    }
    StringRef suffix = kind == SiteKind::Activation ? ".x" : ".dy";
    return fp8.tensorwise(builder, loc, x, (param + suffix).str(), kind);
  }

  static bool madeByBackward(Value v) {
    Operation *op = v.getDefiningOp();
    return op && isBackward(op);
  }

  bool isInput(ParameterOp param, Value v) { return llvm::is_contained(inputs[param], v); }

  // The forward value that `x`, an operand of one of the parameter's backward GEMMs, is or was rebuilt from.
  Value originalOf(ParameterOp param, Value x) {
    auto &known = inputs[param];
    if (llvm::is_contained(known, x))
      return x;
    for (Value candidate : known)
      if (sameComputation(candidate, x))
        return candidate;
    return known.size() == 1 ? known.front() : Value();
  }

  void replace(OpBuilder &builder, LinearGemm &gemm, const Quantised &a, const Quantised &b) {
    auto product = ScaledMatMulOp::create(builder, gemm.op.getLoc(), gemm.op.getResult().getType(), a.values, b.values,
                                          a.scale, b.scale, gemm.transposeA, gemm.transposeB);
    gemm.op.getResult().replaceAllUsesWith(product.getResult());
    gemm.op.erase();
  }

  StringRef level, recipe;
  ParameterOp head; // whose product the head is, if it is FP8
  SmallVector<LinearGemm> gemms;
  llvm::DenseMap<Operation *, SmallVector<Value>> inputs;
  llvm::DenseMap<Operation *, Quantised> weights[2]; // in the forward, in the backward
  llvm::DenseMap<Operation *, Value> squares;        // scales of weights' blocks
};

} // namespace
} // namespace msamp::precision
