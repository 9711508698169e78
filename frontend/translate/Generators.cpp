// Ops that make tensors from shapes and constants.
#include "frontend/ElementType.h"
#include "frontend/translate/Translator.h"

#include <algorithm>
#include <cmath>

namespace msamp::frontend {
namespace {

using onnx::TensorProto;

Host hostOf(NodeContext &c, const onnx::TensorProto &t) {
  auto view = c.weights.view(t, "a constant");
  // Copied: the attribute belongs to the prepared graph, which does not outlive the import.
  return makeHost(view.onnxType, view.dims,
                  [&](char *p) { std::copy_n(static_cast<const char *>(view.data), view.bytes, p); });
}

void constant(NodeContext &c) {
  if (auto *a = c.attribute("value"))
    return c.out(c.e.constant(hostOf(c, a->t())));
  auto make = [&](int type, const Dims &dims, const auto &list) {
    std::vector<double> f(list.begin(), list.end());
    std::vector<int64_t> i(list.begin(), list.end());
    c.out(c.e.constant(isFloat(type) ? hostFromDoubles(type, dims, f) : hostFromInts(type, dims, i)));
  };
  if (auto *a = c.attribute("value_int"))
    return make(TensorProto::INT64, {}, std::vector<int64_t>{a->i()});
  if (auto *a = c.attribute("value_float"))
    return make(TensorProto::FLOAT, {}, std::vector<float>{a->f()});
  if (auto *a = c.attribute("value_ints"))
    return make(TensorProto::INT64, {a->ints_size()}, a->ints());
  if (auto *a = c.attribute("value_floats"))
    return make(TensorProto::FLOAT, {a->floats_size()}, a->floats());
  throw Unsupported("a constant of strings or of a sparse tensor");
}

void constantOfShape(NodeContext &c) {
  Dims dims = c.knownInts(c.in(0), "shape");
  for (int64_t d : dims)
    if (d < 0)
      throw Invalid("shape " + printDims(dims));
  auto *a = c.attribute("value");
  Ref value = a ? c.e.constant(hostOf(c, a->t())) : c.e.splat(TensorProto::FLOAT, {1}, 0);
  c.out(c.e.broadcast(c.e.reshape(value, {}), dims));
}

void shape(NodeContext &c) {
  Ref x = c.in(0);
  int64_t rank = x->rank(), start = c.getInt("start", 0), end = c.getInt("end", rank);
  start = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<int64_t>(end < 0 ? end + rank : end, 0, rank);
  c.out(c.e.ints(Dims(x->dims.begin() + start, x->dims.begin() + std::max(start, end))));
}

void size(NodeContext &c) {
  c.out(c.e.constant(hostFromInts(TensorProto::INT64, {}, {countElements(c.in(0)->dims)})));
}

int64_t longestRange(__int128 n) {
  if (n > int64_t(1) << 31)
    throw Invalid("a range of more than 2^31 values");
  return static_cast<int64_t>(n);
}

void range(NodeContext &c) {
  int type = c.in(0)->type;
  if (!isFloat(type)) {
    int64_t start = c.knownInts(c.in(0), "start").at(0), limit = c.knownInts(c.in(1), "limit").at(0),
            delta = c.knownInts(c.in(2), "delta").at(0);
    if (!delta)
      throw Invalid("delta is 0");
    // In 128 bits: the span of two 64-bit numbers.
    __int128 span = delta > 0 ? __int128(limit) - start : __int128(start) - limit,
             step = delta > 0 ? __int128(delta) : -__int128(delta);
    int64_t n = span > 0 ? longestRange((span + step - 1) / step) : 0;
    std::vector<int64_t> values;
    for (int64_t i = 0; i < n; ++i)
      values.push_back(start + i * delta);
    return c.out(c.e.constant(hostFromInts(type, {static_cast<int64_t>(values.size())}, values)));
  }
  double v[3];
  for (int i = 0; i < 3; ++i) {
    Host h = c.e.host(c.in(i));
    if (!h)
      throw Unsupported("a bound that the step computes");
    v[i] = doublesOf(*h).at(0);
  }
  if (v[2] == 0)
    throw Invalid("delta is 0");
  std::vector<double> values;
  double length = std::ceil((v[1] - v[0]) / v[2]);
  int64_t n = length > 0 ? longestRange(static_cast<__int128>(std::min(length, 1e18))) : 0;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(v[0] + i * v[2]);
  c.out(c.e.constant(hostFromDoubles(type, {n}, values)));
}

void eyeLike(NodeContext &c) {
  Ref x = c.in(0);
  if (x->rank() != 2)
    throw Invalid("rank " + std::to_string(x->rank()) + ", expected 2");
  int64_t k = c.getInt("k", 0), rows = x->dims[0], columns = x->dims[1];
  std::vector<int64_t> values;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      values.push_back(j == i + k);
  c.out(c.e.constant(hostFromInts(static_cast<int>(c.getInt("dtype", x->type)), x->dims, values)));
}

void trilu(NodeContext &c) {
  Ref x = c.in(0);
  if (x->rank() < 2)
    throw Invalid("rank " + std::to_string(x->rank()) + ", expected at least 2");
  int64_t k = c.has(1) ? c.knownInts(c.in(1), "k").at(0) : 0, rows = x->dims[x->rank() - 2],
          columns = x->dims[x->rank() - 1];
  bool upper = c.getInt("upper", 1);
  Ref keep = c.e.remember("trilu" + printDims({rows, columns, k, upper}), [&] {
    return makeHost(TensorProto::BOOL, {rows, columns}, [&](char *p) {
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j)
          *p++ = upper ? j - i >= k : j - i <= k;
    });
  });
  c.out(c.e.select(keep, x, c.e.splat(x->type, {}, 0)));
}

// Counts of flags that the step computes are a product with a triangle of ones, exact in FP32.
void cumsum(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0);
  int64_t axis = c.axis(c.knownInts(c.in(1), "axis").at(0), x->rank());
  bool exclusive = c.getInt("exclusive", 0), reverse = c.getInt("reverse", 0);
  if (Host h = e.host(x))
    return c.out(e.remember("cumsum" + printDims({axis, exclusive, reverse}) + e.identity(*h),
                            [&] { return host::cumsum(*h, axis, exclusive, reverse); }));
  int64_t n = x->dims[axis];
  if (!isFloat(x->type) && (!x->fromBool || n >= 1 << 24))
    throw Unsupported("a cumulative sum of integers that the step computes");
  int type = isFloat(x->type) ? x->type : int(TensorProto::FLOAT);
  Host triangle = makeHost(TensorProto::BOOL, {n, n}, [&](char *p) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        *p++ = reverse ? (exclusive ? i > j : i >= j) : (exclusive ? i < j : i <= j);
  });
  Dims perm;
  for (int64_t d = 0; d < x->rank(); ++d)
    if (d != axis)
      perm.push_back(d);
  perm.push_back(axis);
  Ref moved = e.transpose(e.cast(x, type), perm);
  Ref sums = e.matmul(e.reshape(moved, {countElements(x->dims) / std::max<int64_t>(n, 1), n}),
                      e.cast(e.constant(triangle), type));
  Dims back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    back[perm[i]] = i;
  c.out(e.cast(e.transpose(e.reshape(sums, moved->dims), back), x->type));
}

} // namespace

void addGenerators(TranslatorTable &t) {
  t["Constant"] = constant;
  t["ConstantOfShape"] = constantOfShape;
  t["Shape"] = shape;
  t["Size"] = size;
  t["Range"] = range;
  t["EyeLike"] = eyeLike;
  t["Trilu"] = trilu;
  t["CumSum"] = cumsum;
}

} // namespace msamp::frontend
