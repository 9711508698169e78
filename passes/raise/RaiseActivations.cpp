// Finds gelu and swiglu in their decomposed forms.
#include "ir/Msamp/Expr.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/raise/Match.h"
#include "passes/raise/Passes.h"

#include <map>
#include <numbers>

using namespace mlir;

namespace msamp::raise {

#define GEN_PASS_DEF_RAISEACTIVATIONS
#include "passes/raise/Passes.h.inc"

namespace {

// Coefficients of x^i t^j. Comparing polynomials covers every order in which an exporter writes the factors.
using Polynomial = std::map<std::pair<int, int>, double>;

constexpr int maxDegree = 4, maxDepth = 12;

std::optional<Polynomial> product(const Polynomial &a, const Polynomial &b) {
  Polynomial result;
  for (auto [i, p] : a)
    for (auto [j, q] : b) {
      std::pair<int, int> degree(i.first + j.first, i.second + j.second);
      if (degree.first + degree.second > maxDegree)
        return std::nullopt;
      result[degree] += p * q;
    }
  return result;
}

Polynomial sum(const Polynomial &a, const Polynomial &b, double sign) {
  Polynomial result = a;
  for (auto [i, q] : b)
    result[i] += sign * q;
  return result;
}

// `v` as a polynomial of `x` and `t` (which may be null).
std::optional<Polynomial> polynomial(Value v, Value x, Value t, int depth = 0) {
  if (v == x)
    return Polynomial{{{1, 0}, 1.0}};
  if (t && v == t)
    return Polynomial{{{0, 1}, 1.0}};
  if (auto c = splatOf(v))
    return Polynomial{{{0, 0}, *c}};
  Operation *op = v.getDefiningOp();
  if (!op || depth > maxDepth)
    return std::nullopt;
  auto of = [&](unsigned i) { return polynomial(op->getOperand(i), x, t, depth + 1); };
  if (isa<arith::AddFOp, arith::SubFOp>(op)) {
    auto a = of(0), b = of(1);
    if (!a || !b)
      return std::nullopt;
    return sum(*a, *b, isa<arith::AddFOp>(op) ? 1.0 : -1.0);
  }
  if (isa<arith::MulFOp>(op)) {
    auto a = of(0), b = of(1);
    return a && b ? product(*a, *b) : std::nullopt;
  }
  if (isa<arith::DivFOp>(op)) {
    auto a = of(0);
    auto c = splatOf(op->getOperand(1));
    return a && c && *c != 0.0 ? product(*a, Polynomial{{{0, 0}, 1.0 / *c}}) : std::nullopt;
  }
  if (isa<arith::NegFOp>(op)) {
    auto a = of(0);
    return a ? product(*a, Polynomial{{{0, 0}, -1.0}}) : std::nullopt;
  }
  if (isa<math::PowFOp>(op)) {
    auto a = of(0);
    auto exponent = splatOf(op->getOperand(1));
    if (!a || !exponent || (*exponent != 2.0 && *exponent != 3.0))
      return std::nullopt;
    auto square = product(*a, *a);
    return square && *exponent == 3.0 ? product(*square, *a) : square;
  }
  return std::nullopt;
}

bool equal(const std::optional<Polynomial> &found, const Polynomial &expected) {
  if (!found)
    return false;
  for (auto [degree, c] : *found)
    if (!expected.contains(degree) && std::abs(c) > 1e-6)
      return false;
  for (auto [degree, c] : expected) {
    auto at = found->find(degree);
    if (at == found->end() || !near(at->second, c))
      return false;
  }
  return true;
}

// Values below `v` that may be the x of a polynomial.
void collectCandidates(Value v, SmallVectorImpl<Value> &candidates, int depth = 0) {
  if (splatOf(v) || llvm::is_contained(candidates, v) || candidates.size() > 12)
    return;
  candidates.push_back(v);
  Operation *op = v.getDefiningOp();
  if (!op || depth > 5 || !isa<arith::AddFOp, arith::MulFOp, arith::DivFOp, math::PowFOp>(op))
    return;
  for (Value operand : op->getOperands())
    collectCandidates(operand, candidates, depth + 1);
}

// Where users of `t` complete x/2 + x t/2.
Operation *findGelu(Value at, Value x, Value t, int depth = 0) {
  static const Polynomial gelu{{{1, 0}, 0.5}, {{1, 1}, 0.5}};
  if (equal(polynomial(at, x, t), gelu))
    return at.getDefiningOp();
  if (depth > 4)
    return nullptr;
  for (Operation *user : at.getUsers())
    if (isa<arith::AddFOp, arith::MulFOp, arith::DivFOp>(user))
      if (Operation *found = findGelu(user->getResult(0), x, t, depth + 1))
        return found;
  return nullptr;
}

template <typename OpT>
struct FormGelu : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  static constexpr bool isTanh = std::is_same_v<OpT, math::TanhOp>;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    if (!isa<RankedTensorType>(op.getType()))
      return failure();
    double root = std::sqrt(2.0 * std::numbers::inv_pi);
    Polynomial argument = isTanh ? Polynomial{{{1, 0}, root}, {{3, 0}, root * 0.044715}}
                                 : Polynomial{{{1, 0}, std::numbers::sqrt2 / 2.0}};
    SmallVector<Value> candidates;
    collectCandidates(op.getOperand(), candidates);
    for (Value x : candidates) {
      if (!equal(polynomial(op.getOperand(), x, Value()), argument))
        continue;
      Operation *found = findGelu(op.getResult(), x, op.getResult());
      if (!found)
        continue;
      rewriter.setInsertionPoint(found);
      rewriter.replaceOpWithNewOp<GeluOp>(found, found->getResult(0).getType(), x, isTanh);
      return success();
    }
    return failure();
  }
};

// The gate of 1 / (1 + exp(-gate)); null if `v` is no sigmoid.
Value gateOfSigmoid(Value v, Value numerator) {
  auto div = binary<arith::DivFOp>(v);
  if (!div)
    return {};
  if (numerator ? div->first != numerator : splatOf(div->first) != std::optional(1.0))
    return {};
  auto sum = shifted(div->second);
  if (!sum || sum->second != 1.0)
    return {};
  auto exp = sum->first.getDefiningOp<math::ExpOp>();
  auto negated = exp ? scaled(exp.getOperand()) : std::nullopt;
  return negated && negated->second == -1.0 ? negated->first : Value();
}

// The gate of gate * sigmoid(gate).
Value gateOfSilu(Value v) {
  if (auto mul = binary<arith::MulFOp>(v)) {
    if (gateOfSigmoid(mul->second, Value()) == mul->first)
      return mul->first;
    if (gateOfSigmoid(mul->first, Value()) == mul->second)
      return mul->second;
  }
  if (auto div = binary<arith::DivFOp>(v))
    if (gateOfSigmoid(v, div->first) == div->first)
      return div->first;
  return {};
}

struct FormSwiglu : OpRewritePattern<arith::MulFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::MulFOp op, PatternRewriter &rewriter) const override {
    for (auto [a, b] : {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      if (splatOf(b))
        continue;
      if (Value gate = gateOfSilu(a); gate && gate != b) {
        rewriter.replaceOpWithNewOp<SwigluOp>(op, op.getType(), gate, b);
        return success();
      }
      // (up * sigmoid(gate)) * gate
      auto inner = binary<arith::MulFOp>(a);
      if (!inner)
        continue;
      for (auto [sigmoid, up] : {std::pair(inner->first, inner->second), std::pair(inner->second, inner->first)})
        if (up != b && gateOfSigmoid(sigmoid, Value()) == b) {
          rewriter.replaceOpWithNewOp<SwigluOp>(op, op.getType(), b, up);
          return success();
        }
    }
    return failure();
  }
};

// 1 / (1 + exp(z)) with z bounded so that exp(z) stays finite. The quotient is the same or, beyond the bound, differs
// by less than the least normal number; but its derivative, in which exp(z) meets the vanished quotient, is 0 there
// and not the product of 0 and infinity.
struct BoundExponent : OpRewritePattern<arith::DivFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::DivFOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<RankedTensorType>(op.getType());
    auto sum = type ? shifted(op.getRhs()) : std::nullopt;
    auto exp = sum && sum->second > 0.0 ? sum->first.getDefiningOp<math::ExpOp>() : math::ExpOp();
    if (!exp || exp.getOperand().getDefiningOp<arith::MinimumFOp>())
      return failure();
    auto element = cast<FloatType>(tensorTypeOf(exp.getResult()).getElementType());
    double bound = std::floor(std::log(APFloat::getLargest(element.getFloatSemantics()).convertToDouble())) - 1.0;
    rewriter.setInsertionPoint(exp);
    Expr z(rewriter, exp.getLoc(), exp.getOperand());
    Expr bounded = z.make<arith::MinimumFOp>(z.value, z.like(bound).value);
    rewriter.replaceOpWithNewOp<math::ExpOp>(exp, bounded.value);
    return success();
  }
};

struct RaiseActivations : impl::RaiseActivationsBase<RaiseActivations> {
  using RaiseActivationsBase::RaiseActivationsBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FormGelu<math::TanhOp>, FormGelu<math::ErfOp>, FormSwiglu>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    // What is left of them is no part of a swiglu.
    RewritePatternSet bounds(&getContext());
    bounds.add<BoundExponent>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(bounds))))
      signalPassFailure();
  }
};

} // namespace
} // namespace msamp::raise
