// Sources, constants and structural operations.
#include "frontend/Emitter.h"

#include "frontend/ElementType.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <onnx/onnx_pb.h>

#include <algorithm>

using namespace mlir;

namespace msamp::frontend {
namespace {

std::string key(const char *op, std::initializer_list<const Dims *> attributes) {
  std::string k = op;
  for (const Dims *d : attributes)
    k += printDims(*d);
  return k;
}

bool isProgression(const std::vector<int64_t> &v) {
  for (size_t i = 1; i < v.size(); ++i)
    if (v[i] - v[i - 1] != v[1] - v[0] || v[1] <= v[0])
      return false;
  return !v.empty();
}

} // namespace

RankedTensorType Emitter::type(int onnxType, const Dims &dims) {
  // Sums of the bytes of many such tensors are counted in 64 bits.
  int64_t count = 1;
  if (llvm::any_of(dims, [&](int64_t d) { return llvm::MulOverflow(count, d, count) || count > int64_t(1) << 44; }))
    throw Invalid("a tensor of shape " + printDims(dims) + " has more than 2^44 elements");
  return RankedTensorType::get(dims, elementType(*builder.getContext(), onnxType));
}

Ref Emitter::constant(Host h) {
  auto t = std::make_shared<Tensor>();
  t->type = h->type;
  t->dims = h->dims;
  t->host = std::move(h);
  return t;
}

Ref Emitter::splat(int type, const Dims &dims, double value) {
  if (dims.size())
    return broadcast(splat(type, {}, value), dims);
  return constant(hostFromDoubles(type, dims, std::vector<double>(countElements(dims), value)));
}

Ref Emitter::ints(const std::vector<int64_t> &values) {
  return constant(hostFromInts(onnx::TensorProto::INT64, {static_cast<int64_t>(values.size())}, values));
}

Ref Emitter::initializer(const std::string &name, int type, const Dims &dims) {
  Ref &t = initializers[name];
  if (!t) {
    t = std::make_shared<Tensor>();
    t->type = type;
    t->dims = dims;
    t->initializer = name;
  }
  return t;
}

void Emitter::track(const Ref &statistic, const Ref &next) {
  TrackOp::create(builder, loc(), FlatSymbolRefAttr::get(builder.getContext(), statistic->initializer), value(next));
}

Ref Emitter::computed(Value value, int type) {
  auto t = std::make_shared<Tensor>();
  t->type = type;
  auto shape = mlir::cast<RankedTensorType>(value.getType()).getShape();
  t->dims.assign(shape.begin(), shape.end());
  t->value = value;
  return t;
}

Host Emitter::host(const Ref &x) {
  if (!x->host && known(x)) {
    auto view = weights.get(x->initializer);
    auto h = std::make_shared<HostTensor>();
    h->type = view.onnxType;
    h->dims = view.dims;
    h->data = static_cast<const char *>(view.data);
    h->bytes = view.bytes;
    h->owner = view.keepAlive;
    x->host = h;
  }
  return x->host;
}

// Names a tensor's contents: small ones by their bytes, large ones by the buffer that holds them. Results of equal
// computations share a buffer (see remember), so equal masks of many layers are computed and stored once.
std::string Emitter::identity(const HostTensor &t) {
  std::string id = std::to_string(t.type) + printDims(t.dims);
  if (t.bytes <= 1024)
    return id + std::string(t.data, t.bytes);
  auto it = identities.find(t.data);
  if (it == identities.end())
    it = identities.try_emplace(t.data, nextIdentity++, std::make_shared<HostTensor>(t)).first;
  return id + "#" + std::to_string(it->second.first);
}

Ref Emitter::remember(const std::string &k, const std::function<Host()> &make) {
  Host &h = folded[k];
  if (!h)
    h = make();
  return constant(h);
}

// A constant of which one element is stored.
Value Emitter::splatValue(const HostTensor &t, const Dims &dims) {
  auto tensorType = type(t.type, dims);
  ArrayRef<char> element(t.data, elementSize(t.type));
  Value &v = constants[std::to_string(t.type) + printDims(dims) + "=" + std::string(element.begin(), element.end())];
  if (!v)
    v = arith::ConstantOp::create(builder, loc(), tensorType,
                                  isBool(t.type) ? DenseElementsAttr::get(tensorType, element[0] != 0)
                                                 : DenseElementsAttr::getFromRawBuffer(tensorType, element));
  return v;
}

Value Emitter::constantValue(const HostTensor &t) {
  if (allEqual(t))
    return splatValue(t, t.dims);
  auto tensorType = type(t.type, t.dims);
  Value &v = constants[identity(t)];
  if (!v)
    v = arith::ConstantOp::create(
        builder, loc(), tensorType,
        isBool(t.type)
            ? DenseElementsAttr::get(tensorType, ArrayRef<bool>(reinterpret_cast<const bool *>(t.data), t.bytes))
            : DenseElementsAttr::getFromRawBuffer(tensorType, ArrayRef<char>(t.data, t.bytes)));
  return v;
}

Value Emitter::value(const Ref &x) {
  if (x->value)
    return x->value;
  if (isParameter(x)) {
    Value &v = parameters[x->initializer];
    if (!v)
      v = GetOp::create(builder, loc(), type(x), FlatSymbolRefAttr::get(builder.getContext(), x->initializer));
    return x->value = v;
  }
  return constantValue(*host(x));
}

Value Emitter::broadcastValue(const Ref &x, const Dims &dims) {
  if (x->dims == dims)
    return value(x);
  if (Host h = host(x)) {
    Host small = host::compress(*h);
    if (small->size() == 1 && countElements(dims) > 0)
      return splatValue(*small, dims);
    if (small->dims != h->dims)
      return broadcastValue(constant(small), dims);
  }
  // Dimensions that grow are dropped first.
  Dims kept, into;
  int64_t lead = static_cast<int64_t>(dims.size()) - x->rank();
  for (int64_t d = 0; d < x->rank(); ++d) {
    if (x->dims[d] == 1 && dims[lead + d] != 1)
      continue;
    kept.push_back(x->dims[d]);
    into.push_back(lead + d);
  }
  Value v = value(reshape(x, kept));
  if (kept == dims)
    return v;
  return BroadcastOp::create(builder, loc(), type(x->type, dims), v, into);
}

Dims Emitter::broadcastDims(const Dims &a, const Dims &b) {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x < 0 || y < 0 || (x != y && x != 1 && y != 1))
      throw Invalid("shapes " + printDims(a) + " and " + printDims(b) + " do not broadcast to one another");
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Ref Emitter::reshape(const Ref &x, const Dims &dims) {
  if (x->dims == dims)
    return x;
  if (countElements(dims) != countElements(x->dims))
    throw Invalid("a tensor of shape " + printDims(x->dims) + " has no shape " + printDims(dims));
  if (Host h = host(x))
    return constant(host::reshape(*h, dims));
  return computed(ReshapeOp::create(builder, loc(), type(x->type, dims), value(x)), x->type);
}

Ref Emitter::transpose(const Ref &x, const Dims &perm) {
  if (std::is_sorted(perm.begin(), perm.end()))
    return x;
  Dims dims, strides, from = rowMajorStrides(x->dims);
  for (int64_t p : perm) {
    dims.push_back(x->dims[p]);
    strides.push_back(from[p]);
  }
  if (Host h = host(x))
    return remember(key("transpose", {&perm}) + identity(*h), [&] { return host::strided(*h, dims, strides, 0); });
  return computed(TransposeOp::create(builder, loc(), type(x->type, dims), value(x), perm), x->type);
}

Ref Emitter::broadcast(const Ref &x, const Dims &dims) {
  if (x->dims == dims)
    return x;
  if (broadcastDims(x->dims, dims) != dims)
    throw Invalid("shape " + printDims(x->dims) + " does not broadcast to " + printDims(dims));
  if (Host h = host(x)) {
    Dims strides = rowMajorStrides(x->dims), full(dims.size(), 0);
    for (int64_t d = 0; d < x->rank(); ++d)
      full[dims.size() - x->rank() + d] = x->dims[d] == 1 ? 0 : strides[d];
    return remember(key("broadcast", {&dims}) + identity(*h), [&] { return host::strided(*h, dims, full, 0); });
  }
  return computed(broadcastValue(x, dims), x->type);
}

Ref Emitter::slice(const Ref &x, const Dims &starts, const Dims &steps, const Dims &sizes) {
  if (sizes == x->dims && std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s >= 1; }))
    return x;
  if (!countElements(sizes)) // as exporters write the rest of a whole; nothing computes it
    return constant(makeHost(x->type, sizes, [](char *) {}));
  if (Host h = host(x)) {
    Dims strides = rowMajorStrides(x->dims);
    int64_t offset = 0;
    for (int64_t d = 0; d < x->rank(); ++d) {
      offset += starts[d] * strides[d];
      strides[d] *= steps[d];
    }
    return remember(key("slice", {&starts, &steps, &sizes}) + identity(*h),
                    [&] { return host::strided(*h, sizes, strides, offset); });
  }
  Ref from = x;
  Dims at = starts, by = steps;
  for (int64_t d = 0; d < x->rank(); ++d) {
    if (steps[d] > 0)
      continue;
    // Backward steps: by index.
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < sizes[d]; ++i)
      indices.push_back(starts[d] + i * steps[d]);
    from = gather(from, ints(indices), d);
    at[d] = 0;
    by[d] = 1;
  }
  if (from->dims == sizes)
    return from;
  return computed(SliceOp::create(builder, loc(), type(x->type, sizes), value(from), at, by), x->type);
}

Ref Emitter::concat(std::vector<Ref> xs, int64_t axis) {
  // Parts without elements only matter when there are no others.
  if (std::any_of(xs.begin(), xs.end(), [](const Ref &x) { return countElements(x->dims); }))
    std::erase_if(xs, [&](const Ref &x) { return x->dims[axis] == 0; });
  if (xs.size() == 1)
    return xs[0];
  Dims dims = xs[0]->dims;
  dims[axis] = 0;
  bool allKnown = true;
  for (const Ref &x : xs) {
    sameTypes("Concat", xs[0], x);
    Dims expected = xs[0]->dims;
    if (x->rank() == xs[0]->rank())
      expected[axis] = x->dims[axis];
    if (x->dims != expected)
      throw Invalid("shapes " + printDims(xs[0]->dims) + " and " + printDims(x->dims) +
                    " do not concatenate along axis " + std::to_string(axis));
    dims[axis] += x->dims[axis];
    allKnown &= known(x);
  }
  if (allKnown) {
    std::vector<Host> hosts;
    Dims at{axis};
    std::string k = key("concat", {&at});
    for (const Ref &x : xs) {
      hosts.push_back(host(x));
      k += identity(*hosts.back()) + ";";
    }
    return remember(k, [&] { return host::concat(hosts, axis); });
  }
  SmallVector<Value> values;
  for (const Ref &x : xs)
    values.push_back(value(x));
  return computed(ConcatOp::create(builder, loc(), type(xs[0]->type, dims), values, axis), xs[0]->type);
}

Ref Emitter::gather(const Ref &x, const Ref &indices, int64_t axis) {
  if (isFloat(indices->type) || isBool(indices->type))
    throw Invalid("indices of type " + elementName(indices->type));
  int64_t n = x->dims[axis];
  Dims dims(x->dims.begin(), x->dims.begin() + axis);
  dims.insert(dims.end(), indices->dims.begin(), indices->dims.end());
  dims.insert(dims.end(), x->dims.begin() + axis + 1, x->dims.end());
  if (Host at = host(indices)) {
    auto values = intsOf(*at);
    for (int64_t &i : values) {
      if (i < -n || i >= n)
        throw Invalid("index " + std::to_string(i) + " leaves a dimension of size " + std::to_string(n) +
                      " of a table of shape " + printDims(x->dims) +
                      "; if it follows from a --dim, give a smaller size");
      if (i < 0)
        i += n;
    }
    if (Host h = host(x)) {
      Dims axisKey{axis};
      return remember(key("gather", {&axisKey}) + identity(*h) + "at" + identity(*at),
                      [&] { return host::gather(*h, *at, axis); });
    }
    // Neighbouring rows of an activation are a slice. Lookups in a parameter stay lookups, whatever their indices.
    if (isProgression(values) && (!isParameter(x) || values.size() == 1)) {
      Dims starts(x->rank(), 0), steps(x->rank(), 1), sizes = x->dims;
      starts[axis] = values[0];
      steps[axis] = values.size() > 1 ? values[1] - values[0] : 1;
      sizes[axis] = values.size();
      return reshape(slice(x, starts, steps, sizes), dims);
    }
  }
  Value table = value(x), at = value(indices);
  return computed(GatherOp::create(builder, loc(), type(x->type, dims), table, at, axis), x->type);
}

Ref Emitter::pad(const Ref &x, const Dims &low, const Dims &dims, double v) {
  if (x->dims == dims)
    return x;
  if (Host h = host(x))
    return constant(host::pad(*h, low, dims, v));
  return computed(
      PadOp::create(builder, loc(), type(x->type, dims), value(x), low, Dims(dims.size(), 1), llvm::APFloat(v)),
      x->type);
}

void Emitter::sameTypes(const char *what, const Ref &a, const Ref &b) {
  if (a->type != b->type)
    throw Invalid(std::string(what) + " has operands of types " + elementName(a->type) + " and " +
                  elementName(b->type));
}

} // namespace msamp::frontend
