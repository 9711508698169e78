// Convolutions whose windows do not overlap (patch embeddings, 1x1): each is a matrix product of rearranged pixels.
#include "frontend/translate/Translator.h"

#include <algorithm>

namespace msamp::frontend {
namespace {

bool allAre(const std::vector<int64_t> &values, int64_t v) {
  return std::all_of(values.begin(), values.end(), [v](int64_t x) { return x == v; });
}

void conv(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0), w = c.in(1);
  int64_t rank = x->rank(), spatial = rank - 2;
  if (spatial < 1 || w->rank() != rank || w->dims[1] != x->dims[1])
    throw Invalid("filter of shape " + printDims(w->dims) + " for an input of shape " + printDims(x->dims));
  Dims kernel(w->dims.begin() + 2, w->dims.end());
  std::string problem = overlappingWindows(c.node, &kernel);
  if (!problem.empty())
    throw Unsupported(problem);

  // [N, C, out0, k0, out1, k1, ..] -> [N * out0 * out1 .., C * k0 * k1 ..]
  Dims kept = x->dims, split{x->dims[0], x->dims[1]}, perm{0}, outer{x->dims[0]};
  for (int64_t d = 0; d < spatial; ++d) {
    int64_t k = kernel[d], n = k > 0 ? x->dims[2 + d] / k : 0;
    if (!n)
      throw Invalid("a window of " + std::to_string(k) + " for a dimension of " + std::to_string(x->dims[2 + d]));
    kept[2 + d] = n * k;
    split.insert(split.end(), {n, k});
    perm.push_back(2 + 2 * d);
    outer.push_back(n);
  }
  perm.push_back(1);
  for (int64_t d = 0; d < spatial; ++d)
    perm.push_back(3 + 2 * d);
  Ref pixels = e.transpose(e.reshape(e.slice(x, Dims(rank, 0), Dims(rank, 1), kept), split), perm);
  int64_t columns = x->dims[1] * countElements(kernel), filters = w->dims[0];
  pixels = e.reshape(pixels, {countElements(outer), columns});
  Ref y = e.matmul(pixels, e.reshape(w, {filters, columns}), false, true);
  if (c.has(2))
    y = e.add(y, c.in(2));
  outer.push_back(filters);
  Dims back{0, rank - 1};
  for (int64_t d = 0; d < spatial; ++d)
    back.push_back(1 + d);
  c.out(e.transpose(e.reshape(y, outer), back));
}

} // namespace

std::string overlappingWindows(const onnx::NodeProto &node, const Dims *kernelDims) {
  Dims kernel, strides, dilations, pads;
  int64_t group = 1;
  std::string autoPad;
  for (const auto &a : node.attribute()) {
    Dims ints(a.ints().begin(), a.ints().end());
    if (a.name() == "kernel_shape")
      kernel = ints;
    if (a.name() == "strides")
      strides = ints;
    if (a.name() == "dilations")
      dilations = ints;
    if (a.name() == "pads")
      pads = ints;
    if (a.name() == "group")
      group = a.i();
    if (a.name() == "auto_pad")
      autoPad = a.s();
  }
  if (kernelDims)
    kernel = *kernelDims;
  if (kernel.empty())
    return "";
  if (strides.empty())
    strides.assign(kernel.size(), 1);
  bool padded = !allAre(pads, 0) || (!autoPad.empty() && autoPad != "NOTSET" && autoPad != "VALID");
  if (kernel == strides && !padded && group == 1 && (allAre(dilations, 1) || allAre(kernel, 1)))
    return "";
  return "windows " + printDims(kernel) + " at strides " + printDims(strides) + (padded ? ", padded" : "") +
         (group == 1 ? "" : ", in groups") + ": only convolutions whose windows tile the input are supported";
}

void addConvolution(TranslatorTable &table) {
  table["Conv"] = conv;
}

} // namespace msamp::frontend
