// Pointwise operations, reductions and products.
#include "frontend/ElementType.h"
#include "frontend/Emitter.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace msamp::frontend {
namespace {

// What each kind is called in a memo key.
std::string kindKey(const char *family, int kind) {
  return std::string(family) + std::to_string(kind) + ":";
}

} // namespace

Ref Emitter::unary(Unary kind, const Ref &x) {
  if (Host h = host(x))
    return remember(kindKey("unary", int(kind)) + identity(*h), [&] { return host::unary(kind, *h); });
  bool isF = isFloat(x->type);
  Value v = value(x);
  auto done = [&](Value r) { return computed(r, x->type); };
  auto needFloat = [&] {
    if (!isF)
      throw Invalid("needs a floating-point operand, not " + elementName(x->type));
  };
  switch (kind) {
  case Unary::Neg:
    if (isF)
      return done(arith::NegFOp::create(builder, loc(), v));
    return binary(Binary::Sub, 0.0, x);
  case Unary::Abs:
    if (isF)
      return done(math::AbsFOp::create(builder, loc(), v));
    return isUnsigned(x->type) ? x : done(math::AbsIOp::create(builder, loc(), v));
  case Unary::Not: {
    Value one = broadcastValue(splat(x->type, {}, 1), x->dims);
    return done(arith::XOrIOp::create(builder, loc(), v, one));
  }
  case Unary::IsNaN: {
    needFloat();
    return computed(arith::CmpFOp::create(builder, loc(), arith::CmpFPredicate::UNO, v, v), onnx::TensorProto::BOOL);
  }
  case Unary::Sign: {
    Ref zero = splat(x->type, {}, 0), one = splat(x->type, {}, 1), minus = splat(x->type, {}, -1);
    return select(compare(Compare::Greater, x, zero), one, select(compare(Compare::Less, x, zero), minus, zero));
  }
  default:
    break;
  }
  needFloat();
  switch (kind) {
  case Unary::Sqrt:
    return done(math::SqrtOp::create(builder, loc(), v));
  case Unary::Exp:
    return done(math::ExpOp::create(builder, loc(), v));
  case Unary::Log:
    return done(math::LogOp::create(builder, loc(), v));
  case Unary::Sin:
    return done(math::SinOp::create(builder, loc(), v));
  case Unary::Cos:
    return done(math::CosOp::create(builder, loc(), v));
  case Unary::Tan:
    return done(math::TanOp::create(builder, loc(), v));
  case Unary::Tanh:
    return done(math::TanhOp::create(builder, loc(), v));
  case Unary::Erf:
    return done(math::ErfOp::create(builder, loc(), v));
  case Unary::Floor:
    return done(math::FloorOp::create(builder, loc(), v));
  case Unary::Ceil:
    return done(math::CeilOp::create(builder, loc(), v));
  default:
    return done(math::RoundEvenOp::create(builder, loc(), v));
  }
}

Ref Emitter::binary(Binary kind, const Ref &a, const Ref &b) {
  sameTypes("an op", a, b);
  Dims dims = broadcastDims(a->dims, b->dims);
  if (known(a) && known(b)) {
    Ref x = broadcast(a, dims), y = broadcast(b, dims);
    return remember(kindKey("binary", int(kind)) + identity(*host(x)) + "," + identity(*host(y)),
                    [&] { return host::binary(kind, *x->host, *y->host); });
  }
  bool isF = isFloat(a->type), isU = isUnsigned(a->type);
  if (kind == Binary::Pow && !isF)
    throw Unsupported("Pow of integers that the step computes");
  Value x = broadcastValue(a, dims), y = broadcastValue(b, dims);
  auto done = [&](Value r) { return computed(r, a->type); };
  auto pick = [&](auto f, auto s, auto u) {
    using F = decltype(f);
    using S = decltype(s);
    using U = decltype(u);
    if (isF)
      return done(F::create(builder, loc(), x, y));
    return isU ? done(U::create(builder, loc(), x, y)) : done(S::create(builder, loc(), x, y));
  };
  switch (kind) {
  case Binary::Add:
    return pick(arith::AddFOp(), arith::AddIOp(), arith::AddIOp());
  case Binary::Sub:
    return pick(arith::SubFOp(), arith::SubIOp(), arith::SubIOp());
  case Binary::Mul:
    return pick(arith::MulFOp(), arith::MulIOp(), arith::MulIOp());
  case Binary::Div:
    return pick(arith::DivFOp(), arith::DivSIOp(), arith::DivUIOp());
  case Binary::FMod:
    return pick(arith::RemFOp(), arith::RemSIOp(), arith::RemUIOp());
  case Binary::Max:
    return pick(arith::MaximumFOp(), arith::MaxSIOp(), arith::MaxUIOp());
  case Binary::Min:
    return pick(arith::MinimumFOp(), arith::MinSIOp(), arith::MinUIOp());
  case Binary::Pow:
    return done(math::PowFOp::create(builder, loc(), x, y));
  case Binary::And:
    return done(arith::AndIOp::create(builder, loc(), x, y));
  case Binary::Or:
    return done(arith::OrIOp::create(builder, loc(), x, y));
  case Binary::Xor:
    return done(arith::XOrIOp::create(builder, loc(), x, y));
  case Binary::Mod:
    break;
  }
  // The result has the divisor's sign.
  Ref r = binary(Binary::FMod, a, b), zero = splat(a->type, {}, 0);
  if (isU)
    return r;
  Ref negative = compare(Compare::Less, r, zero), negativeDivisor = compare(Compare::Less, b, zero);
  Ref differs = binary(Binary::Xor, negative, negativeDivisor),
      some = unary(Unary::Not, compare(Compare::Equal, r, zero));
  Ref wrong = binary(Binary::And, some, differs), corrected = add(r, b);
  return select(wrong, corrected, r);
}

Ref Emitter::compare(Compare kind, const Ref &a, const Ref &b) {
  sameTypes("a comparison", a, b);
  Dims dims = broadcastDims(a->dims, b->dims);
  if (known(a) && known(b)) {
    Ref x = broadcast(a, dims), y = broadcast(b, dims);
    return remember(kindKey("compare", int(kind)) + identity(*host(x)) + "," + identity(*host(y)),
                    [&] { return host::compare(kind, *x->host, *y->host); });
  }
  Value x = broadcastValue(a, dims), y = broadcastValue(b, dims);
  Value r;
  if (isFloat(a->type)) {
    using P = arith::CmpFPredicate;
    P p[] = {P::OEQ, P::OLT, P::OLE, P::OGT, P::OGE};
    r = arith::CmpFOp::create(builder, loc(), p[int(kind)], x, y);
  } else {
    using P = arith::CmpIPredicate;
    P s[] = {P::eq, P::slt, P::sle, P::sgt, P::sge}, u[] = {P::eq, P::ult, P::ule, P::ugt, P::uge};
    r = arith::CmpIOp::create(builder, loc(), (isUnsigned(a->type) ? u : s)[int(kind)], x, y);
  }
  return computed(r, onnx::TensorProto::BOOL);
}

Ref Emitter::select(const Ref &c, const Ref &a, const Ref &b) {
  sameTypes("Where", a, b);
  if (!isBool(c->type))
    throw Invalid("the condition has type " + elementName(c->type) + ", expected BOOL");
  Dims dims = broadcastDims(broadcastDims(a->dims, b->dims), c->dims);
  if (known(c)) {
    Host h = host(c);
    // One branch for all elements.
    if (allEqual(*h))
      return broadcast(*h->data ? a : b, dims);
    if (known(a) && known(b)) {
      Ref p = broadcast(c, dims), x = broadcast(a, dims), y = broadcast(b, dims);
      return remember("select" + identity(*host(p)) + "," + identity(*host(x)) + "," + identity(*host(y)),
                      [&] { return host::select(*p->host, *x->host, *y->host); });
    }
  }
  Value p = broadcastValue(c, dims), x = broadcastValue(a, dims), y = broadcastValue(b, dims);
  return computed(arith::SelectOp::create(builder, loc(), p, x, y), a->type);
}

Ref Emitter::cast(const Ref &x, int to) {
  if (x->type == to)
    return x;
  if (!elementSize(to))
    throw Unsupported("element type " + elementName(to));
  if (Host h = host(x))
    return remember(kindKey("cast", to) + identity(*h), [&] { return host::cast(*h, to); });
  Type result = type(to, x->dims);
  bool fromF = isFloat(x->type), toF = isFloat(to);
  Value v = value(x), r;
  if (isBool(to)) {
    Value zero = broadcastValue(splat(x->type, {}, 0), x->dims);
    r = fromF ? Value(arith::CmpFOp::create(builder, loc(), arith::CmpFPredicate::UNE, v, zero))
              : Value(arith::CmpIOp::create(builder, loc(), arith::CmpIPredicate::ne, v, zero));
  } else if (fromF && toF) {
    int a = elementSize(x->type), b = elementSize(to);
    if (a == b)
      return cast(cast(x, onnx::TensorProto::FLOAT), to); // between the two 16-bit formats
    r = a < b ? Value(arith::ExtFOp::create(builder, loc(), result, v))
              : Value(arith::TruncFOp::create(builder, loc(), result, v));
  } else if (fromF) {
    r = isUnsigned(to) ? Value(arith::FPToUIOp::create(builder, loc(), result, v))
                       : Value(arith::FPToSIOp::create(builder, loc(), result, v));
  } else if (toF) {
    r = isUnsigned(x->type) ? Value(arith::UIToFPOp::create(builder, loc(), result, v))
                            : Value(arith::SIToFPOp::create(builder, loc(), result, v));
  } else {
    int a = isBool(x->type) ? 0 : elementSize(x->type), b = elementSize(to);
    if (a == b)
      r = v;
    else if (a > b)
      r = arith::TruncIOp::create(builder, loc(), result, v);
    else
      r = isUnsigned(x->type) ? Value(arith::ExtUIOp::create(builder, loc(), result, v))
                              : Value(arith::ExtSIOp::create(builder, loc(), result, v));
  }
  Ref out = computed(r, to);
  out->fromBool = isBool(x->type) || x->fromBool;
  return out;
}

Ref Emitter::reduce(Reduction kind, const Ref &x, const Dims &axes) {
  if (axes.empty())
    return x;
  if (Host h = host(x))
    return remember(kindKey("reduce", int(kind)) + printDims(axes) + identity(*h),
                    [&] { return host::reduce(kind, *h, axes); });
  Dims dims;
  for (int64_t d = 0; d < x->rank(); ++d)
    if (!llvm::is_contained(axes, d))
      dims.push_back(x->dims[d]);
  ReduceKind k = kind == Reduction::Sum ? ReduceKind::Sum : kind == Reduction::Max ? ReduceKind::Max : ReduceKind::Min;
  return computed(ReduceOp::create(builder, loc(), type(x->type, dims), k, value(x), axes), x->type);
}

Ref Emitter::reduceMean(const Ref &x, const Dims &axes) {
  double n = 1;
  for (int64_t a : axes)
    n *= x->dims[a];
  return binary(Binary::Div, reduce(Reduction::Sum, x, axes), n);
}

Ref Emitter::matmul(const Ref &a, const Ref &b, bool ta, bool tb) {
  sameTypes("a matrix product", a, b);
  size_t rank = a->dims.size();
  Dims dims = a->dims;
  int64_t ka = a->dims[rank - (ta ? 2 : 1)], kb = b->dims[rank - (tb ? 1 : 2)];
  if (ka != kb)
    throw Invalid("inner dimensions " + std::to_string(ka) + " of " + printDims(a->dims) + " and " +
                  std::to_string(kb) + " of " + printDims(b->dims) + " differ");
  dims[rank - 2] = a->dims[rank - (ta ? 1 : 2)];
  dims[rank - 1] = b->dims[rank - (tb ? 2 : 1)];
  if (known(a) && known(b))
    return remember(kindKey("matmul", ta * 2 + tb) + identity(*host(a)) + "," + identity(*host(b)),
                    [&] { return host::matmul(*a->host, *b->host, ta, tb); });
  if (!isFloat(a->type))
    throw Unsupported("matrix product of " + elementName(a->type) + " that the step computes");
  Value x = value(a), y = value(b);
  return computed(MatMulOp::create(builder, loc(), type(a->type, dims), x, y, ta, tb), a->type);
}

} // namespace msamp::frontend
