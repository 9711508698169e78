// Lookups by index.
#include "frontend/ElementType.h"
#include "frontend/translate/Translator.h"

namespace msamp::frontend {
namespace {

using onnx::TensorProto;

// Indices as INT64, negative ones counted from the end of a dimension of size n.
Ref normalised(Emitter &e, const Ref &indices, int64_t n) {
  Ref i = e.cast(indices, TensorProto::INT64), zero = e.splat(TensorProto::INT64, {}, 0);
  Ref wrapped = e.add(i, e.constant(hostFromInts(TensorProto::INT64, {}, {n})));
  return e.select(e.compare(Compare::Less, i, zero), wrapped, i);
}

Ref integer(Emitter &e, int64_t v) {
  return e.constant(hostFromInts(TensorProto::INT64, {}, {v}));
}

// 0, 1, .. along dimension d of rank `rank`, ready to broadcast.
Ref iota(Emitter &e, int64_t n, int64_t d, int64_t rank) {
  Dims dims(rank, 1);
  dims[d] = n;
  std::vector<int64_t> values(n);
  for (int64_t i = 0; i < n; ++i)
    values[i] = i;
  return e.constant(hostFromInts(TensorProto::INT64, dims, values));
}

void gather(NodeContext &c) {
  c.out(c.e.gather(c.in(0), c.in(1), c.axis(c.getInt("axis", 0), c.in(0)->rank())));
}

// One lookup in the flattened leading dimensions.
void gatherND(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0), indices = c.in(1);
  int64_t batch = c.getInt("batch_dims", 0), depth = indices->rank() ? indices->dims.back() : 0;
  if (!indices->rank() || batch < 0 || batch + depth > x->rank() || batch >= indices->rank())
    throw Invalid("indices of shape " + printDims(indices->dims) + " into shape " + printDims(x->dims));
  Dims tupleDims(indices->dims.begin(), indices->dims.end() - 1);
  int64_t rank = tupleDims.size(), rows = countElements(Dims(x->dims.begin(), x->dims.begin() + batch + depth));
  Ref row;
  int64_t stride = 1;
  auto addTerm = [&](Ref term) {
    if (stride != 1)
      term = e.mul(term, integer(e, stride));
    row = row ? e.add(row, term) : term;
  };
  for (int64_t k = depth; k-- > 0;) {
    Dims starts(rank + 1, 0), sizes = indices->dims;
    starts.back() = k;
    sizes.back() = 1;
    int64_t n = x->dims[batch + k];
    addTerm(normalised(e, e.reshape(e.slice(indices, starts, Dims(rank + 1, 1), sizes), tupleDims), n));
    stride *= n;
  }
  for (int64_t b = batch; b-- > 0;) {
    addTerm(iota(e, x->dims[b], b, rank));
    stride *= x->dims[b];
  }
  if (!row)
    row = integer(e, 0);
  Dims flat{rows}, rest(x->dims.begin() + batch + depth, x->dims.end());
  flat.insert(flat.end(), rest.begin(), rest.end());
  c.out(e.gather(e.reshape(x, flat), e.broadcast(row, tupleDims), 0));
}

void gatherElements(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0), indices = c.in(1);
  int64_t rank = x->rank(), axis = c.axis(c.getInt("axis", 0), rank);
  if (indices->rank() != rank)
    throw Invalid("indices of shape " + printDims(indices->dims) + " into shape " + printDims(x->dims));
  Dims strides = rowMajorStrides(x->dims);
  Ref at = e.mul(normalised(e, indices, x->dims[axis]), integer(e, strides[axis]));
  for (int64_t d = 0; d < rank; ++d)
    if (d != axis && indices->dims[d] > 1)
      at = e.add(at, e.mul(iota(e, indices->dims[d], d, rank), integer(e, strides[d])));
  c.out(e.gather(e.reshape(x, {countElements(x->dims)}), at, 0));
}

void oneHot(NodeContext &c) {
  Emitter &e = c.e;
  Ref indices = c.in(0), values = c.in(2);
  int64_t depth = c.knownInts(c.in(1), "depth").at(0), rank = indices->rank() + 1;
  int64_t axis = c.axis(c.getInt("axis", -1), rank);
  if (depth < 1 || depth > int64_t(1) << 31)
    throw Invalid("depth " + std::to_string(depth));
  Dims dims = indices->dims;
  dims.insert(dims.begin() + axis, 1);
  Ref hit = e.compare(Compare::Equal, e.reshape(normalised(e, indices, depth), dims), iota(e, depth, axis, rank));
  auto pick = [&](int64_t i) { return e.reshape(e.slice(values, {i}, {1}, {1}), {}); };
  if (values->dims != Dims{2})
    throw Invalid("values of shape " + printDims(values->dims) + ", expected [2]");
  Ref on = pick(1), off = pick(0);
  c.out(e.select(hit, on, off));
}

void nonZero(NodeContext &c) {
  Host h = c.e.host(c.in(0));
  if (!h)
    throw Unsupported("positions of non-zero values that the step computes: their number is not known");
  auto values = doublesOf(*h);
  Dims strides = rowMajorStrides(h->dims);
  int64_t rank = h->dims.size(), count = 0;
  for (double v : values)
    count += v != 0;
  std::vector<int64_t> at(rank * count);
  for (int64_t e = 0, k = 0; e < static_cast<int64_t>(values.size()); ++e)
    if (values[e] != 0) {
      for (int64_t d = 0; d < rank; ++d)
        at[d * count + k] = e / strides[d] % h->dims[d];
      ++k;
    }
  c.out(c.e.constant(hostFromInts(TensorProto::INT64, {rank, count}, at)));
}

} // namespace

void addIndexing(TranslatorTable &t) {
  t["Gather"] = gather;
  t["GatherND"] = gatherND;
  t["GatherElements"] = gatherElements;
  t["OneHot"] = oneHot;
  t["NonZero"] = nonZero;
}

} // namespace msamp::frontend
