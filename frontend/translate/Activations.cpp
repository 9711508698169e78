// Activation functions, by their definitions in ONNX.
#include "frontend/translate/Translator.h"

namespace msamp::frontend {
namespace {

Ref relu(Emitter &e, const Ref &x) {
  return e.binary(Binary::Max, x, 0.0);
}
Ref exp(Emitter &e, const Ref &x) {
  return e.unary(Unary::Exp, x);
}

Ref sigmoid(Emitter &e, const Ref &x) {
  return e.binary(Binary::Div, 1.0, e.binary(Binary::Add, exp(e, e.unary(Unary::Neg, x)), 1.0));
}

// log(1 + exp(x)) without overflow. |x| is the maximum of x and -x, whose slope at 0 is -1: with relu's slope of 0 the
// sum has the true one there, 1/2.
Ref softplus(Emitter &e, const Ref &x) {
  Ref magnitude = e.binary(Binary::Max, x, e.unary(Unary::Neg, x));
  Ref tail = e.unary(Unary::Log, e.binary(Binary::Add, exp(e, e.unary(Unary::Neg, magnitude)), 1.0));
  Ref positive = relu(e, x);
  return e.add(positive, tail);
}

// `below` where x is negative.
Ref piecewise(Emitter &e, const Ref &x, const Ref &below, const Ref &above) {
  return e.select(e.compare(Compare::Less, x, e.splat(x->type, {}, 0)), below, above);
}

// alpha (exp(x / scale) - 1), of the negative part only: no overflow in the branch that is not taken.
Ref expm1(Emitter &e, const Ref &x, double alpha, double scale) {
  Ref negative = e.binary(Binary::Min, x, 0.0);
  if (scale != 1)
    negative = e.binary(Binary::Div, negative, scale);
  Ref r = e.binary(Binary::Sub, exp(e, negative), 1.0);
  return alpha == 1 ? r : e.binary(Binary::Mul, r, alpha);
}

Ref hardSigmoid(Emitter &e, const Ref &x, double alpha, double beta) {
  Ref r = e.binary(Binary::Add, e.binary(Binary::Mul, x, alpha), beta);
  return e.binary(Binary::Min, e.binary(Binary::Max, r, 0.0), 1.0);
}

void translateRelu(NodeContext &c) {
  c.out(relu(c.e, c.in(0)));
}
void translateSigmoid(NodeContext &c) {
  c.out(sigmoid(c.e, c.in(0)));
}
void translateSoftplus(NodeContext &c) {
  c.out(softplus(c.e, c.in(0)));
}

void translateGelu(NodeContext &c) {
  Emitter &e = c.e;
  std::string approximate = c.getString("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    throw Unsupported("approximate = " + approximate);
  Ref x = c.in(0);
  c.out(e.computed(GeluOp::create(e.builder, e.loc(), e.type(x), e.value(x), approximate == "tanh"), x->type));
}

void translateLeakyRelu(NodeContext &c) {
  Ref x = c.in(0);
  c.out(piecewise(c.e, x, c.e.binary(Binary::Mul, x, c.getFloat("alpha", 0.01)), x));
}

void translatePRelu(NodeContext &c) {
  Ref x = c.in(0);
  c.out(piecewise(c.e, x, c.e.mul(x, c.in(1)), x));
}

void translateElu(NodeContext &c) {
  Ref x = c.in(0);
  c.out(piecewise(c.e, x, expm1(c.e, x, c.getFloat("alpha", 1), 1), x));
}

void translateCelu(NodeContext &c) {
  Ref x = c.in(0);
  double alpha = c.getFloat("alpha", 1);
  c.out(piecewise(c.e, x, expm1(c.e, x, alpha, alpha), x));
}

void translateSelu(NodeContext &c) {
  Ref x = c.in(0);
  double alpha = c.getFloat("alpha", 1.67326319217681884765625), gamma = c.getFloat("gamma", 1.05070102214813232421875);
  c.out(c.e.binary(Binary::Mul, piecewise(c.e, x, expm1(c.e, x, alpha, 1), x), gamma));
}

void translateThresholdedRelu(NodeContext &c) {
  Ref x = c.in(0), alpha = c.e.splat(x->type, {}, c.getFloat("alpha", 1));
  c.out(c.e.select(c.e.compare(Compare::Greater, x, alpha), x, c.e.splat(x->type, {}, 0)));
}

void translateHardSigmoid(NodeContext &c) {
  c.out(hardSigmoid(c.e, c.in(0), c.getFloat("alpha", 0.2), c.getFloat("beta", 0.5)));
}

void translateHardSwish(NodeContext &c) {
  Ref x = c.in(0);
  c.out(c.e.mul(x, hardSigmoid(c.e, x, 1.0 / 6, 0.5)));
}

void translateSwish(NodeContext &c) {
  Ref x = c.in(0);
  double alpha = c.getFloat("alpha", 1);
  c.out(c.e.mul(x, sigmoid(c.e, alpha == 1 ? x : c.e.binary(Binary::Mul, x, alpha))));
}

void translateMish(NodeContext &c) {
  Ref x = c.in(0);
  c.out(c.e.mul(x, c.e.unary(Unary::Tanh, softplus(c.e, x))));
}

void translateSoftsign(NodeContext &c) {
  Ref x = c.in(0);
  c.out(c.e.div(x, c.e.binary(Binary::Add, c.e.unary(Unary::Abs, x), 1.0)));
}

// Identity: a training step without dropout, as the exporters' inference graphs have it.
void translateDropout(NodeContext &c) {
  c.out(c.in(0));
  if (c.wants(1))
    c.out(c.e.splat(onnx::TensorProto::BOOL, c.in(0)->dims, 1), 1);
}

} // namespace

void addActivations(TranslatorTable &t) {
  t["Relu"] = translateRelu;
  t["Sigmoid"] = translateSigmoid;
  t["Softplus"] = translateSoftplus;
  t["Gelu"] = translateGelu;
  t["LeakyRelu"] = translateLeakyRelu;
  t["PRelu"] = translatePRelu;
  t["Elu"] = translateElu;
  t["Celu"] = translateCelu;
  t["Selu"] = translateSelu;
  t["ThresholdedRelu"] = translateThresholdedRelu;
  t["HardSigmoid"] = translateHardSigmoid;
  t["HardSwish"] = translateHardSwish;
  t["Swish"] = translateSwish;
  t["Mish"] = translateMish;
  t["Softsign"] = translateSoftsign;
  t["Dropout"] = translateDropout;
}

} // namespace msamp::frontend
