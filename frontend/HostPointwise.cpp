// Pointwise arithmetic, reductions and products of host tensors.
#include "frontend/ElementType.h"
#include "frontend/HostElements.h"

#include <algorithm>

namespace msamp::frontend::host {
namespace {

template <class T>
Host store(int type, const Dims &dims, const std::vector<T> &values) {
  return makeHost(type, dims, [&](char *p) { storeElements(type, values, p); });
}

template <class T>
T wrap(uint64_t v) {
  return static_cast<T>(v);
}

template <class T>
T unaryOf(Unary kind, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (kind) {
    case Unary::Neg:
      return -x;
    case Unary::Abs:
      return std::fabs(x);
    case Unary::Sqrt:
      return std::sqrt(x);
    case Unary::Exp:
      return std::exp(x);
    case Unary::Log:
      return std::log(x);
    case Unary::Sin:
      return std::sin(x);
    case Unary::Cos:
      return std::cos(x);
    case Unary::Tan:
      return std::tan(x);
    case Unary::Tanh:
      return std::tanh(x);
    case Unary::Erf:
      return std::erf(x);
    case Unary::Floor:
      return std::floor(x);
    case Unary::Ceil:
      return std::ceil(x);
    case Unary::Round:
      return std::nearbyint(x);
    case Unary::Sign:
      return x > 0 ? T(1) : x < 0 ? T(-1) : x;
    default:
      return x;
    }
  } else {
    switch (kind) {
    case Unary::Neg:
      return wrap<T>(-static_cast<uint64_t>(x));
    case Unary::Abs:
      return x < 0 ? wrap<T>(-static_cast<uint64_t>(x)) : x;
    case Unary::Not:
      return !x;
    case Unary::Sign:
      return (x > 0) - (x < 0);
    default:
      return x;
    }
  }
}

int64_t powInt(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  uint64_t result = 1, b = base;
  for (; exponent; exponent >>= 1, b *= b)
    if (exponent & 1)
      result *= b;
  return result;
}

template <class T>
T binaryOf(Binary kind, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (kind) {
    case Binary::Add:
      return a + b;
    case Binary::Sub:
      return a - b;
    case Binary::Mul:
      return a * b;
    case Binary::Div:
      return a / b;
    case Binary::FMod:
      return std::fmod(a, b);
    case Binary::Mod:
      return a - b * std::floor(a / b);
    case Binary::Pow:
      return std::pow(a, b);
    case Binary::Max:
      return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
    case Binary::Min:
      return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
    default:
      return a;
    }
  } else {
    uint64_t ua = a, ub = b;
    switch (kind) {
    case Binary::Add:
      return wrap<T>(ua + ub);
    case Binary::Sub:
      return wrap<T>(ua - ub);
    case Binary::Mul:
      return wrap<T>(ua * ub);
    case Binary::Div:
      return b == 0 ? 0 : b == -1 ? wrap<T>(-ua) : a / b;
    case Binary::FMod:
      return b == 0 || b == -1 ? 0 : a % b;
    case Binary::Mod: {
      if (b == 0 || b == -1)
        return 0;
      T r = a % b;
      return r && ((r < 0) != (b < 0)) ? r + b : r;
    }
    case Binary::Pow:
      return powInt(a, b);
    case Binary::Max:
      return std::max(a, b);
    case Binary::Min:
      return std::min(a, b);
    case Binary::And:
      return a && b;
    case Binary::Or:
      return a || b;
    case Binary::Xor:
      return (a != 0) != (b != 0);
    }
    return a;
  }
}

template <class T>
bool compareOf(Compare kind, T a, T b) {
  switch (kind) {
  case Compare::Equal:
    return a == b;
  case Compare::Less:
    return a < b;
  case Compare::LessOrEqual:
    return a <= b;
  case Compare::Greater:
    return a > b;
  case Compare::GreaterOrEqual:
    return a >= b;
  }
  return false;
}

} // namespace

Host unary(Unary kind, const HostTensor &x) {
  return withComputeType(x.type, [&](auto sample) {
    using T = decltype(sample);
    auto v = loadElements<T>(x);
    if (kind == Unary::IsNaN) {
      std::vector<int64_t> nan(v.size());
      if constexpr (std::is_floating_point_v<T>)
        for (size_t i = 0; i < v.size(); ++i)
          nan[i] = std::isnan(v[i]);
      return store(onnx::TensorProto::BOOL, x.dims, nan);
    }
    for (T &e : v)
      e = unaryOf(kind, e);
    return store(x.type, x.dims, v);
  });
}

Host binary(Binary kind, const HostTensor &a, const HostTensor &b) {
  return withComputeType(a.type, [&](auto sample) {
    using T = decltype(sample);
    auto x = loadElements<T>(a), y = loadElements<T>(b);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = binaryOf(kind, x[i], y[i]);
    return store(a.type, a.dims, x);
  });
}

Host compare(Compare kind, const HostTensor &a, const HostTensor &b) {
  return withComputeType(a.type, [&](auto sample) {
    using T = decltype(sample);
    auto x = loadElements<T>(a), y = loadElements<T>(b);
    return makeHost(onnx::TensorProto::BOOL, a.dims, [&](char *p) {
      for (size_t i = 0; i < x.size(); ++i)
        p[i] = compareOf(kind, x[i], y[i]);
    });
  });
}

Host select(const HostTensor &condition, const HostTensor &a, const HostTensor &b) {
  size_t size = elementSize(a.type);
  return makeHost(a.type, a.dims, [&](char *p) {
    for (int64_t i = 0, n = a.size(); i < n; ++i)
      std::memcpy(p + i * size, (condition.data[i] ? a.data : b.data) + i * size, size);
  });
}

Host cast(const HostTensor &x, int type) {
  if (x.type == type)
    return std::make_shared<HostTensor>(x);
  // Doubles are read as doubles: one rounding to the target.
  return withComputeType(x.type, [&](auto sample) { return store(type, x.dims, loadElements<decltype(sample)>(x)); });
}

Host reduce(Reduction kind, const HostTensor &x, const Dims &axes) {
  Dims dims;
  Dims outStride(x.dims.size(), 0);
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (!std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)))
      dims.push_back(x.dims[d]);
  Dims strides = rowMajorStrides(dims);
  for (size_t d = 0, k = 0; d < x.dims.size(); ++d)
    if (!std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)))
      outStride[d] = strides[k++];
  return withComputeType(x.type, [&](auto sample) {
    using T = decltype(sample);
    using Acc = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    Acc initial = 0;
    if (kind == Reduction::Max)
      initial = std::numeric_limits<Acc>::has_infinity ? -std::numeric_limits<Acc>::infinity()
                                                       : std::numeric_limits<Acc>::lowest();
    if (kind == Reduction::Min)
      initial = std::numeric_limits<Acc>::has_infinity ? std::numeric_limits<Acc>::infinity()
                                                       : std::numeric_limits<Acc>::max();
    std::vector<Acc> acc(countElements(dims), initial);
    auto v = loadElements<T>(x);
    Dims index(x.dims.size(), 0);
    for (size_t e = 0; e < v.size(); ++e) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d)
        at += index[d] * outStride[d];
      Binary op = kind == Reduction::Sum ? Binary::Add : kind == Reduction::Max ? Binary::Max : Binary::Min;
      acc[at] = binaryOf<Acc>(op, acc[at], v[e]);
      for (size_t d = index.size(); d-- > 0 && ++index[d] == x.dims[d];)
        index[d] = 0;
    }
    return store(x.type, dims, acc);
  });
}

Host matmul(const HostTensor &a, const HostTensor &b, bool ta, bool tb) {
  size_t rank = a.dims.size();
  int64_t m = a.dims[rank - (ta ? 1 : 2)], k = a.dims[rank - (ta ? 2 : 1)], n = b.dims[rank - (tb ? 2 : 1)];
  Dims dims = a.dims;
  dims[rank - 2] = m;
  dims[rank - 1] = n;
  int64_t batches = countElements(Dims(dims.begin(), dims.end() - 2));
  return withComputeType(a.type, [&](auto sample) {
    using T = decltype(sample);
    using Acc = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    auto x = loadElements<T>(a), y = loadElements<T>(b);
    std::vector<Acc> out(countElements(dims));
    for (int64_t c = 0; c < batches; ++c)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          Acc sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += Acc(x[c * m * k + (ta ? l * m + i : i * k + l)]) * Acc(y[c * k * n + (tb ? j * k + l : l * n + j)]);
          out[(c * m + i) * n + j] = sum;
        }
    return store(a.type, dims, out);
  });
}

Host cumsum(const HostTensor &x, int64_t axis, bool exclusive, bool reverse) {
  int64_t n = x.dims[axis], inner = countElements(Dims(x.dims.begin() + axis + 1, x.dims.end()));
  return withComputeType(x.type, [&](auto sample) {
    using T = decltype(sample);
    auto v = loadElements<T>(x);
    int64_t outer = n && inner ? static_cast<int64_t>(v.size()) / (n * inner) : 0;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) {
        T sum = 0;
        for (int64_t j = 0; j < n; ++j) {
          T &e = v[(o * n + (reverse ? n - 1 - j : j)) * inner + i];
          T before = sum;
          sum = binaryOf<T>(Binary::Add, sum, e);
          e = exclusive ? before : sum;
        }
      }
    return store(x.type, x.dims, v);
  });
}

} // namespace msamp::frontend::host
