#include "tests/unit/codegen/Interpreter.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <cstring>
#include <functional>

using namespace mlir;

namespace msamp::test {
namespace {

std::vector<int64_t> indexOf(int64_t flat, const std::vector<int64_t> &shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0;)
    index[d] = flat % shape[d], flat /= shape[d];
  return index;
}
int64_t flatOf(const std::vector<int64_t> &index, const std::vector<int64_t> &shape) {
  int64_t flat = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    flat = flat * shape[d] + index[d];
  return flat;
}

double roundTo(double x, Type element) {
  if (element.isF32())
    return static_cast<float>(x);
  if (element.isF16())
    return static_cast<_Float16>(static_cast<float>(x));
  if (element.isBF16()) {
    float f = static_cast<float>(x);
    uint32_t u;
    std::memcpy(&u, &f, 4);
    u = (u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000u;
    std::memcpy(&f, &u, 4);
    return f;
  }
  if (isa<Float8E4M3FNType>(element))
    return roundToFp8(x, true);
  if (isa<Float8E5M2Type>(element))
    return roundToFp8(x, false);
  return x;
}

double scaleOf(double amax, Type format, int64_t margin) {
  if (amax == 0 || !std::isfinite(amax))
    return 1;
  double most = isa<Float8E4M3FNType>(format) ? 448 : isa<Float8E5M2Type>(format) ? 57344 : 65504;
  int e = static_cast<int>(std::floor(std::log2(most / amax)));
  while (std::ldexp(amax, e) > most)
    --e;
  while (std::ldexp(amax, e + 1) <= most)
    ++e;
  return std::ldexp(1.0, std::min(126, std::max(-126, e - static_cast<int>(margin))));
}

} // namespace

double roundToFp8(double x, bool e4m3) {
  if (std::isnan(x))
    return x;
  double most = e4m3 ? 448 : 57344, least = e4m3 ? std::ldexp(1, -6) : std::ldexp(1, -14);
  int bits = e4m3 ? 3 : 2;
  double a = std::fabs(static_cast<float>(x));
  int exponent = a < least ? std::ilogb(least) : std::ilogb(a);
  double unit = std::ldexp(1.0, exponent - bits);
  double rounded = std::isinf(a) ? most : std::min(most, std::nearbyint(a / unit) * unit);
  return std::copysign(rounded, x);
}

std::vector<Tensor> interpret(func::FuncOp func, const std::vector<Tensor> &arguments) {
  std::map<void *, Tensor> values;
  auto get = [&](Value v) -> Tensor & { return values.at(v.getAsOpaquePointer()); };
  for (auto [arg, tensor] : llvm::zip(func.getArguments(), arguments))
    values[arg.getAsOpaquePointer()] = tensor;
  std::vector<Tensor> results;
  for (Operation &op : func.front()) {
    if (isa<func::ReturnOp>(op)) {
      for (Value v : op.getOperands())
        results.push_back(get(v));
      break;
    }
    auto type = cast<RankedTensorType>(op.getResult(0).getType());
    Type element = type.getElementType();
    Tensor out{std::vector<int64_t>(type.getShape()), std::vector<double>(type.getNumElements())};
    auto each = [&](const std::function<double(int64_t)> &f) {
      for (int64_t i = 0; i < out.size(); ++i)
        out.data[i] = roundTo(f(i), element);
    };
    auto unary = [&](double (*f)(double)) { each([&](int64_t i) { return f(get(op.getOperand(0)).data[i]); }); };
    auto binary = [&](const std::function<double(double, double)> &f) {
      each([&](int64_t i) { return f(get(op.getOperand(0)).data[i], get(op.getOperand(1)).data[i]); });
    };
    llvm::TypeSwitch<Operation *>(&op)
        .Case<arith::ConstantOp>([&](arith::ConstantOp c) {
          auto dense = cast<DenseElementsAttr>(c.getValue());
          if (isa<FloatType>(element)) {
            auto range = dense.getValues<APFloat>();
            each([&](int64_t i) {
              APFloat v = range[i];
              bool lost;
              v.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
              return v.convertToDouble();
            });
          } else {
            auto range = dense.getValues<APInt>();
            each([&](int64_t i) { return static_cast<double>(range[i].getSExtValue()); });
          }
        })
        .Case<arith::AddFOp, arith::AddIOp>([&](auto) { binary([](double a, double b) { return a + b; }); })
        .Case<arith::SubFOp>([&](auto) { binary([](double a, double b) { return a - b; }); })
        .Case<arith::MulFOp>([&](auto) { binary([](double a, double b) { return a * b; }); })
        .Case<arith::DivFOp>([&](auto) { binary([](double a, double b) { return a / b; }); })
        .Case<arith::MaximumFOp>([&](auto) {
          binary([](double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b); });
        })
        .Case<arith::NegFOp>([&](auto) { unary([](double a) { return -a; }); })
        .Case<math::AbsFOp>([&](auto) { unary([](double a) { return std::fabs(a); }); })
        .Case<math::ExpOp>([&](auto) { unary([](double a) { return std::exp(a); }); })
        .Case<math::Exp2Op>([&](auto) { unary([](double a) { return std::exp2(a); }); })
        .Case<math::LogOp>([&](auto) { unary([](double a) { return std::log(a); }); })
        .Case<math::TanhOp>([&](auto) { unary([](double a) { return std::tanh(a); }); })
        .Case<math::ErfOp>([&](auto) { unary([](double a) { return std::erf(a); }); })
        .Case<math::SqrtOp>([&](auto) { unary([](double a) { return std::sqrt(a); }); })
        .Case<math::SinOp>([&](auto) { unary([](double a) { return std::sin(a); }); })
        .Case<math::CosOp>([&](auto) { unary([](double a) { return std::cos(a); }); })
        .Case<arith::ExtFOp, arith::TruncFOp, ReshapeOp>([&](auto) { unary([](double a) { return a; }); })
        .Case<arith::CmpIOp>([&](arith::CmpIOp c) {
          bool equal = c.getPredicate() == arith::CmpIPredicate::eq;
          binary([&](double a, double b) { return (a == b) == equal; });
        })
        .Case<arith::SelectOp>([&](auto) {
          each([&](int64_t i) {
            return get(op.getOperand(0)).data[i] ? get(op.getOperand(1)).data[i] : get(op.getOperand(2)).data[i];
          });
        })
        .Case<ScaleOfOp>([&](ScaleOfOp s) {
          each([&](int64_t i) { return scaleOf(get(s.getAmax()).data[i], s.getFormat(), s.getMargin()); });
        })
        .Case<QuantizeOp>([&](QuantizeOp q) {
          Tensor &x = get(q.getX()), &s = get(q.getScale());
          int64_t row = s.size() == 1 ? x.size() : x.shape.back();
          each([&](int64_t i) { return static_cast<float>(x.data[i] * s.data[s.size() == 1 ? 0 : i / row]); });
        })
        .Case<IotaOp>([&](IotaOp iota) { each([&](int64_t i) { return indexOf(i, out.shape)[iota.getDim()]; }); })
        .Case<BroadcastOp>([&](BroadcastOp b) {
          Tensor &in = get(b.getInput());
          each([&](int64_t i) {
            auto index = indexOf(i, out.shape);
            std::vector<int64_t> source;
            for (int64_t d : b.getDims())
              source.push_back(index[d]);
            return in.data[flatOf(source, in.shape)];
          });
        })
        .Case<TransposeOp>([&](TransposeOp t) {
          Tensor &in = get(t.getInput());
          each([&](int64_t i) {
            auto index = indexOf(i, out.shape);
            std::vector<int64_t> source(index.size());
            for (auto [d, p] : llvm::enumerate(t.getPerm()))
              source[p] = index[d];
            return in.data[flatOf(source, in.shape)];
          });
        })
        .Case<SliceOp>([&](SliceOp s) {
          Tensor &in = get(s.getInput());
          each([&](int64_t i) {
            auto index = indexOf(i, out.shape);
            for (size_t d = 0; d < index.size(); ++d)
              index[d] = s.getStarts()[d] + index[d] * s.getStrides()[d];
            return in.data[flatOf(index, in.shape)];
          });
        })
        .Case<ConcatOp>([&](ConcatOp c) {
          each([&](int64_t i) {
            auto index = indexOf(i, out.shape);
            for (Value part : c.getInputs()) {
              Tensor &in = get(part);
              if (index[c.getDim()] < in.shape[c.getDim()])
                return in.data[flatOf(index, in.shape)];
              index[c.getDim()] -= in.shape[c.getDim()];
            }
            return 0.0;
          });
        })
        .Case<ReduceOp>([&](ReduceOp r) {
          Tensor &in = get(r.getInput());
          bool sum = r.getKind() == ReduceKind::Sum;
          for (double &v : out.data)
            v = sum ? 0 : -INFINITY;
          for (int64_t i = 0; i < in.size(); ++i) {
            auto index = indexOf(i, in.shape);
            std::vector<int64_t> kept;
            for (size_t d = 0; d < index.size(); ++d)
              if (!llvm::is_contained(r.getDims(), static_cast<int64_t>(d)))
                kept.push_back(index[d]);
            double &v = out.data[flatOf(kept, out.shape)];
            v = sum ? v + in.data[i] : std::max(v, in.data[i]);
          }
        })
        .Default([&](Operation *o) { llvm::report_fatal_error("interpreter: " + o->getName().getStringRef()); });
    values[op.getResult(0).getAsOpaquePointer()] = std::move(out);
  }
  return results;
}

} // namespace msamp::test
