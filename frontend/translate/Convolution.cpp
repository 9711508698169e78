// Convolutions. One whose windows tile the image (patch embeddings, 1x1) is a linear layer of rearranged pixels.
#include "frontend/ElementType.h"
#include "frontend/translate/Windows.h"

#include <algorithm>

namespace msamp::frontend {
namespace {

bool allAre(const Dims &values, int64_t v) {
  return std::all_of(values.begin(), values.end(), [v](int64_t x) { return x == v; });
}

// The windows of the image as rows: [N * out0 * out1 .., C * k0 * k1 ..]. `outer` becomes [N, out0, out1, ..].
Ref tiles(Emitter &e, const Ref &x, const Dims &kernel, Dims &outer) {
  int64_t rank = x->rank(), spatial = rank - 2;
  outer = {x->dims[0]};
  if (allAre(kernel, 1)) {
    outer.insert(outer.end(), x->dims.begin() + 2, x->dims.end());
    return e.reshape(channelsLast(e, x), {countElements(outer), x->dims[1]});
  }
  // [N, C, out0, k0, out1, k1, ..]
  Dims kept = x->dims, split{x->dims[0], x->dims[1]}, perm{0};
  for (int64_t d = 0; d < spatial; ++d) {
    int64_t k = kernel[d], n = x->dims[2 + d] / k;
    kept[2 + d] = n * k;
    split.insert(split.end(), {n, k});
    perm.push_back(2 + 2 * d);
    outer.push_back(n);
  }
  perm.push_back(1);
  for (int64_t d = 0; d < spatial; ++d)
    perm.push_back(3 + 2 * d);
  Ref pixels = e.transpose(e.reshape(e.slice(x, Dims(rank, 0), Dims(rank, 1), kept), split), perm);
  return e.reshape(pixels, {countElements(outer), x->dims[1] * countElements(kernel)});
}

// A bias for each channel, which is the last dimension.
Ref withBias(NodeContext &c, const Ref &y) {
  if (!c.has(2))
    return y;
  if (c.in(2)->dims != Dims{y->dims.back()})
    throw Invalid("a bias of shape " + printDims(c.in(2)->dims) + " for " + std::to_string(y->dims.back()) +
                  " channels");
  // What PyTorch's exporter writes where there is none.
  if (Host bias = c.e.known(c.in(2)) ? c.e.host(c.in(2)) : Host();
      bias && bias->size() > 0 && allEqual(*bias) && doublesOf(*bias)[0] == 0)
    return y;
  return c.e.add(y, c.in(2));
}

void checkFilter(const Ref &x, const Ref &w, int64_t groups, bool transposed) {
  int64_t channels = x->rank() > 1 ? x->dims[1] : 0;
  bool fits = w->rank() == x->rank() && w->rank() > 2 && groups > 0 && channels % groups == 0 &&
              w->dims[0] % groups == 0 && (transposed ? w->dims[0] == channels : w->dims[1] == channels / groups);
  if (!fits)
    throw Invalid("filter of shape " + printDims(w->dims) + " for an input of shape " + printDims(x->dims) + " in " +
                  std::to_string(groups) + " groups");
  if (w->type != x->type)
    throw Invalid("filter of type " + elementName(w->type) + " for an input of type " + elementName(x->type));
}

void conv(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0), w = c.in(1);
  int64_t groups = c.getInt("group", 1);
  checkFilter(x, w, groups, /*transposed=*/false);
  Windows windows(c, x->dims, Dims(w->dims.begin() + 2, w->dims.end()));
  Dims counts = windows.counts();
  bool apart = allAre(windows.dilations, 1) || allAre(windows.size, 1);
  if (windows.size == windows.strides && !windows.padded() && groups == 1 && apart) {
    Dims outer;
    Ref pixels = tiles(e, x, windows.size, outer);
    Ref filters = e.reshape(w, {w->dims[0], pixels->dims[1]});
    Ref y = withBias(c, e.matmul(pixels, filters, false, true));
    outer.push_back(w->dims[0]);
    return c.out(channelsFirst(e, e.reshape(y, outer)));
  }
  Ref image = channelsLast(e, x), filter = channelsLast(e, w);
  Dims dims{x->dims[0]};
  dims.insert(dims.end(), counts.begin(), counts.end());
  dims.push_back(w->dims[0]);
  // One after the other: each may create an op.
  mlir::Value xValue = e.value(image), wValue = e.value(filter);
  auto op = ConvOp::create(e.builder, e.loc(), e.type(x->type, dims), xValue, wValue, windows.attribute(), groups);
  c.out(channelsFirst(e, withBias(c, e.computed(op.getY(), x->type))));
}

// The transpose of the convolution whose windows are this one's input and whose image is its output.
void convTranspose(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0), w = c.in(1); // [C, O / groups, size..]
  int64_t groups = c.getInt("group", 1);
  checkFilter(x, w, groups, /*transposed=*/true);
  if (c.attribute("output_shape") || c.getString("auto_pad", "NOTSET") != "NOTSET")
    throw Unsupported("output_shape or auto_pad; export it with pads and output_padding");
  Windows windows(c, x->dims, Dims(w->dims.begin() + 2, w->dims.end()));
  Dims extra = c.getInts("output_padding");
  if (!extra.empty() && extra.size() != windows.size.size())
    throw Invalid("output_padding " + printDims(extra) + " for an image of shape " + printDims(x->dims));
  extra.resize(windows.size.size(), 0);
  Dims dims{x->dims[0]};
  for (size_t d = 0; d < windows.size.size(); ++d) {
    int64_t reach = (windows.size[d] - 1) * windows.dilations[d] + 1;
    if (extra[d] < 0 || extra[d] >= windows.strides[d])
      throw Unsupported("output_padding " + printDims(extra) + " for strides " + printDims(windows.strides) +
                        "; it must be smaller than the stride");
    dims.push_back((x->dims[2 + d] - 1) * windows.strides[d] + reach + extra[d] - windows.low[d] - windows.high[d]);
    if (dims.back() < 1)
      throw Invalid("pads " + printDims(windows.low) + " and " + printDims(windows.high) + " leave no position");
  }
  dims.push_back(w->dims[1] * groups);
  Ref windowsOf = channelsLast(e, x), filter = channelsLast(e, w);
  mlir::Value xValue = e.value(windowsOf), wValue = e.value(filter);
  auto op = ConvDgradOp::create(e.builder, e.loc(), e.type(x->type, dims), xValue, wValue, windows.attribute(), groups);
  c.out(channelsFirst(e, withBias(c, e.computed(op.getDX(), x->type))));
}

} // namespace

void addConvolution(TranslatorTable &table) {
  table["Conv"] = conv;
  table["ConvTranspose"] = convTranspose;
}

} // namespace msamp::frontend
