// Arithmetic, comparisons, logic, casts.
#include "frontend/ElementType.h"
#include "frontend/translate/Translator.h"

#include <cmath>
#include <limits>

namespace msamp::frontend {
namespace {

template <Unary K>
void unary(NodeContext &c) {
  c.out(c.e.unary(K, c.in(0)));
}
template <Binary K>
void binary(NodeContext &c) {
  c.out(c.e.binary(K, c.in(0), c.in(1)));
}
template <Compare K>
void compare(NodeContext &c) {
  c.out(c.e.compare(K, c.in(0), c.in(1)));
}

// Sum, Max, Min, Mean of any number of operands.
template <Binary K>
void variadic(NodeContext &c) {
  Ref r = c.in(0);
  for (size_t i = 1; i < c.inputCount(); ++i)
    r = c.e.binary(K, r, c.in(i));
  c.out(r);
}

void mean(NodeContext &c) {
  variadic<Binary::Add>(c);
  c.out(c.e.binary(Binary::Div, c.outputs[0], double(c.inputCount())));
}

void mod(NodeContext &c) {
  c.out(c.e.binary(c.getInt("fmod", 0) ? Binary::FMod : Binary::Mod, c.in(0), c.in(1)));
}

// A constant power becomes products and roots, which have exact and cheap derivatives.
void pow(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0), exponent = c.in(1);
  Host h = e.host(exponent);
  if (h && isFloat(x->type) && !e.known(x) && h->size() > 0 && allEqual(*h)) {
    double p = doublesOf(*h)[0];
    Ref r;
    if (p == 1)
      r = x;
    if (p == 2)
      r = e.mul(x, x);
    if (p == 3)
      r = e.mul(e.mul(x, x), x);
    if (p == 4) {
      Ref square = e.mul(x, x);
      r = e.mul(square, square);
    }
    if (p == 0.5)
      r = e.unary(Unary::Sqrt, x);
    if (p == -0.5)
      r = e.binary(Binary::Div, 1.0, e.unary(Unary::Sqrt, x));
    if (p == -1)
      r = e.binary(Binary::Div, 1.0, x);
    if (r)
      return c.out(e.broadcast(r, Emitter::broadcastDims(x->dims, exponent->dims)));
  }
  // In floating point the exponent is taken in the base's type; integer bases have integer results.
  c.out(e.binary(Binary::Pow, x, e.cast(exponent, x->type)));
}

void reciprocal(NodeContext &c) {
  c.out(c.e.binary(Binary::Div, 1.0, c.in(0)));
}

void where(NodeContext &c) {
  c.out(c.e.select(c.in(0), c.in(1), c.in(2)));
}

void cast(NodeContext &c) {
  c.out(c.e.cast(c.in(0), static_cast<int>(c.getInt("to", 0))));
}

void castLike(NodeContext &c) {
  c.out(c.e.cast(c.in(0), c.in(1)->type));
}

void clip(NodeContext &c) {
  Ref r = c.in(0), low = c.maybe(1), high = c.maybe(2);
  if (!low && c.attribute("min"))
    low = c.e.splat(r->type, {}, c.getFloat("min", 0));
  if (!high && c.attribute("max"))
    high = c.e.splat(r->type, {}, c.getFloat("max", 0));
  if (low)
    r = c.e.binary(Binary::Max, r, low);
  if (high)
    r = c.e.binary(Binary::Min, r, high);
  c.out(r);
}

void isInf(NodeContext &c) {
  Emitter &e = c.e;
  double inf = std::numeric_limits<double>::infinity();
  Ref x = c.in(0), infinity = e.splat(x->type, {}, inf);
  bool positive = c.getInt("detect_positive", 1), negative = c.getInt("detect_negative", 1);
  if (positive && negative)
    return c.out(e.compare(Compare::Equal, e.unary(Unary::Abs, x), infinity));
  if (!positive && !negative)
    return c.out(e.splat(onnx::TensorProto::BOOL, x->dims, 0));
  c.out(e.compare(Compare::Equal, x, positive ? infinity : e.splat(x->type, {}, -inf)));
}

} // namespace

void addPointwise(TranslatorTable &t) {
  t["Add"] = binary<Binary::Add>;
  t["Sub"] = binary<Binary::Sub>;
  t["Mul"] = binary<Binary::Mul>;
  t["Div"] = binary<Binary::Div>;
  t["Mod"] = mod;
  t["Pow"] = pow;
  t["And"] = binary<Binary::And>;
  t["Or"] = binary<Binary::Or>;
  t["Xor"] = binary<Binary::Xor>;
  t["Not"] = unary<Unary::Not>;
  t["Neg"] = unary<Unary::Neg>;
  t["Abs"] = unary<Unary::Abs>;
  t["Sqrt"] = unary<Unary::Sqrt>;
  t["Exp"] = unary<Unary::Exp>;
  t["Log"] = unary<Unary::Log>;
  t["Sin"] = unary<Unary::Sin>;
  t["Cos"] = unary<Unary::Cos>;
  t["Tan"] = unary<Unary::Tan>;
  t["Tanh"] = unary<Unary::Tanh>;
  t["Erf"] = unary<Unary::Erf>;
  t["Floor"] = unary<Unary::Floor>;
  t["Ceil"] = unary<Unary::Ceil>;
  t["Round"] = unary<Unary::Round>;
  t["Sign"] = unary<Unary::Sign>;
  t["IsNaN"] = unary<Unary::IsNaN>;
  t["IsInf"] = isInf;
  t["Reciprocal"] = reciprocal;
  t["Equal"] = compare<Compare::Equal>;
  t["Less"] = compare<Compare::Less>;
  t["LessOrEqual"] = compare<Compare::LessOrEqual>;
  t["Greater"] = compare<Compare::Greater>;
  t["GreaterOrEqual"] = compare<Compare::GreaterOrEqual>;
  t["Sum"] = variadic<Binary::Add>;
  t["Max"] = variadic<Binary::Max>;
  t["Min"] = variadic<Binary::Min>;
  t["Mean"] = mean;
  t["Where"] = where;
  t["Cast"] = cast;
  t["CastLike"] = castLike;
  t["Clip"] = clip;
}

} // namespace msamp::frontend
