// Ops that move elements: shapes, permutations, slices, concatenation, padding.
#include "frontend/translate/Translator.h"

#include <algorithm>
#include <cstdlib>

namespace msamp::frontend {
namespace {

void identity(NodeContext &c) {
  c.out(c.in(0));
}

void reshape(NodeContext &c) {
  Ref x = c.in(0);
  auto dims = c.intsFrom(1, "shape");
  bool allowZero = c.getInt("allowzero", 0);
  int64_t known = 1, unknown = -1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !allowZero) {
      if (i >= x->dims.size())
        throw Invalid("the shape copies dimension " + std::to_string(i) + " of a tensor of rank " +
                      std::to_string(x->rank()));
      dims[i] = x->dims[i];
    }
    if (dims[i] == -1) {
      if (unknown >= 0)
        throw Invalid("the shape has more than one -1");
      unknown = i;
    } else if (dims[i] < 0) {
      throw Invalid("the shape has the dimension " + std::to_string(dims[i]));
    } else {
      known *= dims[i];
    }
  }
  int64_t n = countElements(x->dims);
  if (unknown >= 0) {
    if (known == 0 || n % known)
      throw Invalid("a tensor of shape " + printDims(x->dims) + " has no shape " + printDims(dims));
    dims[unknown] = n / known;
  }
  c.out(c.e.reshape(x, dims));
}

void flatten(NodeContext &c) {
  Ref x = c.in(0);
  int64_t axis = c.getInt("axis", 1);
  if (axis < 0)
    axis += x->rank();
  if (axis < 0 || axis > x->rank())
    throw Invalid("axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(x->rank()));
  int64_t outer = countElements(Dims(x->dims.begin(), x->dims.begin() + axis));
  int64_t inner = countElements(Dims(x->dims.begin() + axis, x->dims.end()));
  c.out(c.e.reshape(x, {outer, inner}));
}

void squeeze(NodeContext &c) {
  Ref x = c.in(0);
  bool given;
  Dims axes = c.axes(c.intsFrom(1, "axes", &given), x->rank()), dims;
  for (int64_t d = 0; d < x->rank(); ++d) {
    bool drop = given ? std::count(axes.begin(), axes.end(), d) : x->dims[d] == 1;
    if (drop && x->dims[d] != 1)
      throw Invalid("dimension " + std::to_string(d) + " of shape " + printDims(x->dims) + " is not 1");
    if (!drop)
      dims.push_back(x->dims[d]);
  }
  c.out(c.e.reshape(x, dims));
}

void unsqueeze(NodeContext &c) {
  Ref x = c.in(0);
  auto values = c.intsFrom(1, "axes");
  int64_t rank = x->rank() + values.size();
  Dims axes = c.axes(values, rank), dims = x->dims;
  for (int64_t a : axes)
    dims.insert(dims.begin() + a, 1);
  c.out(c.e.reshape(x, dims));
}

void transpose(NodeContext &c) {
  Ref x = c.in(0);
  Dims perm = c.getInts("perm");
  if (!c.attribute("perm"))
    for (int64_t d = x->rank(); d-- > 0;)
      perm.push_back(d);
  if (static_cast<int64_t>(perm.size()) != x->rank() ||
      static_cast<int64_t>(c.axes(perm, x->rank()).size()) != x->rank())
    throw Invalid("perm " + printDims(perm) + " for a tensor of rank " + std::to_string(x->rank()));
  for (int64_t &p : perm)
    p = c.axis(p, x->rank());
  c.out(c.e.transpose(x, perm));
}

void expand(NodeContext &c) {
  Ref x = c.in(0);
  c.out(c.e.broadcast(x, Emitter::broadcastDims(x->dims, c.knownInts(c.in(1), "shape"))));
}

void tile(NodeContext &c) {
  Ref x = c.in(0);
  auto repeats = c.knownInts(c.in(1), "repeats");
  if (static_cast<int64_t>(repeats.size()) != x->rank())
    throw Invalid("repeats " + printDims(repeats) + " for shape " + printDims(x->dims));
  Dims apart, grown, dims;
  for (int64_t d = 0; d < x->rank(); ++d) {
    if (repeats[d] < 0)
      throw Invalid("repeats " + printDims(repeats));
    apart.insert(apart.end(), {1, x->dims[d]});
    grown.insert(grown.end(), {repeats[d], x->dims[d]});
    dims.push_back(repeats[d] * x->dims[d]);
  }
  if (dims == x->dims)
    return c.out(x);
  c.out(c.e.reshape(c.e.broadcast(c.e.reshape(x, apart), grown), dims));
}

void concat(NodeContext &c) {
  for (size_t i = 0; i < c.inputCount(); ++i)
    c.in(i);
  c.out(c.e.concat(c.inputs, c.axis(c.getInt("axis", 0), c.in(0)->rank())));
}

void slice(NodeContext &c) {
  Ref x = c.in(0);
  auto starts = c.intsFrom(1, "starts"), ends = c.intsFrom(2, "ends");
  bool given;
  auto axes = c.intsFrom(3, "axes", &given);
  if (!given)
    for (size_t i = 0; i < starts.size(); ++i)
      axes.push_back(i);
  auto steps = c.has(4) ? c.knownInts(c.in(4), "steps") : std::vector<int64_t>(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw Invalid("starts, ends, axes and steps differ in length");
  Dims at(x->rank(), 0), by(x->rank(), 1), sizes = x->dims;
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t d = c.axis(axes[i], x->rank()), n = x->dims[d], step = steps[i];
    if (step == 0)
      throw Invalid("a step is 0");
    // Negative bounds count from the end; then both are clamped to the tensor, or to one before it when going back.
    auto bound = [n](int64_t v) { return v >= 0 ? v : v < -n ? int64_t(-1) : v + n; };
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    int64_t start = std::clamp(bound(starts[i]), low, high), end = std::clamp(bound(ends[i]), low, high);
    // A step beyond the tensor's size takes one element, and its negative need not exist.
    int64_t stride = std::clamp(step, -n - 1, n + 1);
    int64_t span = step > 0 ? end - start : start - end;
    sizes[d] = span > 0 ? (span - 1) / std::abs(stride) + 1 : 0;
    at[d] = sizes[d] ? start : 0;
    by[d] = sizes[d] > 1 ? stride : 1;
  }
  c.out(c.e.slice(x, at, by, sizes));
}

void split(NodeContext &c) {
  Ref x = c.in(0);
  int64_t axis = c.axis(c.getInt("axis", 0), x->rank()), n = x->dims[axis], count = c.node.output_size();
  bool given;
  auto sizes = c.intsFrom(1, "split", &given);
  if (!given) {
    count = c.getInt("num_outputs", count);
    if (count < 1 || count < c.node.output_size())
      throw Invalid(std::to_string(count) + " parts");
    int64_t chunk = (n + count - 1) / count;
    for (int64_t i = 0; i < count; ++i)
      sizes.push_back(std::max<int64_t>(0, std::min(chunk, n - i * chunk)));
  }
  if (static_cast<int64_t>(sizes.size()) < c.node.output_size())
    throw Invalid("parts of sizes " + printDims(sizes) + " for a dimension of " + std::to_string(n));
  std::vector<Ref> parts = partsOf(c.e, x, axis, sizes);
  for (int i = 0; i < c.node.output_size(); ++i)
    if (c.wants(i))
      c.out(parts[i], i);
}

// Pads or crops one axis by an index: reflect, edge, wrap.
Ref padByIndex(NodeContext &c, const Ref &x, int64_t axis, int64_t before, int64_t after, const std::string &mode) {
  int64_t n = x->dims[axis];
  std::vector<int64_t> indices;
  for (int64_t i = -before; i < n + after; ++i) {
    int64_t j = i;
    if (mode == "edge")
      j = std::clamp<int64_t>(i, 0, n - 1);
    if (mode == "wrap")
      j = ((i % n) + n) % n;
    if (mode == "reflect") {
      int64_t period = std::max<int64_t>(2 * (n - 1), 1);
      j = ((i % period) + period) % period;
      if (j >= n)
        j = period - j;
    }
    indices.push_back(j);
  }
  return c.e.gather(x, c.e.ints(indices), axis);
}

void pad(NodeContext &c) {
  Ref x = c.in(0);
  auto pads = c.intsFrom(1, "pads");
  std::string mode = c.getString("mode", "constant");
  auto axes = c.has(3) ? c.knownInts(c.in(3), "axes") : std::vector<int64_t>();
  if (!c.has(3))
    for (int64_t d = 0; d < x->rank(); ++d)
      axes.push_back(d);
  if (pads.size() != 2 * axes.size())
    throw Invalid("pads " + printDims(pads) + " for " + std::to_string(axes.size()) + " axes");
  double value = c.getFloat("value", 0);
  if (c.has(2)) {
    Host h = c.e.host(c.in(2));
    if (!h)
      throw Unsupported("a padding value that the step computes");
    value = doublesOf(*h).at(0);
  }
  Dims low(x->rank(), 0), start(x->rank(), 0), steps(x->rank(), 1), kept = x->dims, dims = x->dims;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t d = c.axis(axes[i], x->rank()), before = pads[i], after = pads[i + axes.size()];
    if (mode != "constant") {
      if (before || after)
        x = padByIndex(c, x, d, before, after, mode);
      continue;
    }
    // Negative pads crop.
    start[d] = std::max<int64_t>(0, -before);
    kept[d] = x->dims[d] - start[d] - std::max<int64_t>(0, -after);
    low[d] = std::max<int64_t>(0, before);
    dims[d] = x->dims[d] + before + after;
    if (kept[d] < 0 || dims[d] < 0)
      throw Invalid("pads " + printDims(pads) + " for shape " + printDims(x->dims));
  }
  if (mode != "constant")
    return c.out(x);
  c.out(c.e.pad(c.e.slice(x, start, steps, kept), low, dims, value));
}

void depthToSpace(NodeContext &c) {
  Ref x = c.in(0);
  int64_t b = c.getInt("blocksize", 1);
  if (x->rank() != 4 || b < 1 || x->dims[1] % (b * b))
    throw Invalid("shape " + printDims(x->dims) + " with block size " + std::to_string(b));
  int64_t n = x->dims[0], depth = x->dims[1] / (b * b), h = x->dims[2], w = x->dims[3];
  Ref r = c.getString("mode", "DCR") == "DCR"
              ? c.e.transpose(c.e.reshape(x, {n, b, b, depth, h, w}), {0, 3, 4, 1, 5, 2})
              : c.e.transpose(c.e.reshape(x, {n, depth, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  c.out(c.e.reshape(r, {n, depth, h * b, w * b}));
}

void spaceToDepth(NodeContext &c) {
  Ref x = c.in(0);
  int64_t b = c.getInt("blocksize", 1);
  if (x->rank() != 4 || b < 1 || x->dims[2] % b || x->dims[3] % b)
    throw Invalid("shape " + printDims(x->dims) + " with block size " + std::to_string(b));
  int64_t n = x->dims[0], depth = x->dims[1], h = x->dims[2] / b, w = x->dims[3] / b;
  Ref r = c.e.transpose(c.e.reshape(x, {n, depth, h, b, w, b}), {0, 3, 5, 1, 2, 4});
  c.out(c.e.reshape(r, {n, depth * b * b, h, w}));
}

} // namespace

void addStructure(TranslatorTable &t) {
  t["Identity"] = identity;
  t["Reshape"] = reshape;
  t["Flatten"] = flatten;
  t["Squeeze"] = squeeze;
  t["Unsqueeze"] = unsqueeze;
  t["Transpose"] = transpose;
  t["Expand"] = expand;
  t["Tile"] = tile;
  t["Concat"] = concat;
  t["Slice"] = slice;
  t["Split"] = split;
  t["Pad"] = pad;
  t["DepthToSpace"] = depthToSpace;
  t["SpaceToDepth"] = spaceToDepth;
}

} // namespace msamp::frontend
