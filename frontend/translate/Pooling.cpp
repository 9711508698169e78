// Pools: the largest value or the mean of each window of an image.
#include "frontend/ElementType.h"
#include "frontend/translate/Windows.h"

namespace msamp::frontend {
namespace {

// [N, windows.., C] for an image [N, C, positions..].
Dims pooledDims(const Ref &x, const Windows &windows) {
  Dims dims{x->dims[0]}, counts = windows.counts();
  dims.insert(dims.end(), counts.begin(), counts.end());
  dims.push_back(x->dims[1]);
  return dims;
}

// Every window needs a value to take, or to average.
void checkTouching(const Ref &x, const Windows &windows) {
  Dims counts = windows.counts();
  for (size_t d = 0; d < counts.size(); ++d)
    if (!windows.attribute().allTouch(d, counts[d], x->dims[2 + d]))
      throw Unsupported("windows of size " + printDims(windows.size) + " of which one lies in padding alone (pads " +
                        printDims(windows.low) + " and " + printDims(windows.high) + "); export it with smaller pads");
}

void checkFloat(const Ref &x) {
  if (x->type != onnx::TensorProto::FLOAT)
    throw Unsupported("an image of type " + elementName(x->type) + "; cast it to FLOAT before");
}

void maxPool(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0);
  checkFloat(x);
  if (c.wants(1))
    throw Unsupported("the output Indices; export the model without it");
  Windows windows(c, x->dims);
  checkTouching(x, windows);
  WindowAttr attribute = windows.attribute();
  if (attribute.taps() > 256)
    throw Unsupported("windows of " + std::to_string(attribute.taps()) +
                      " values, at most 256 are supported; pool in two steps, or with ReduceMax if there is one window");
  Dims dims = pooledDims(x, windows);
  auto taps = mlir::RankedTensorType::get(dims, e.builder.getIntegerType(8, /*isSigned=*/false));
  mlir::Value image = e.value(channelsLast(e, x));
  auto op = MaxPoolOp::create(e.builder, e.loc(), e.type(x->type, dims), taps, image, attribute);
  c.out(channelsFirst(e, e.computed(op.getY(), x->type)));
}

void averagePool(NodeContext &c) {
  Emitter &e = c.e;
  Ref x = c.in(0);
  checkFloat(x);
  Windows windows(c, x->dims);
  bool countPadding = c.getInt("count_include_pad", 0) != 0;
  if (!countPadding)
    checkTouching(x, windows);
  mlir::Value image = e.value(channelsLast(e, x));
  auto op = AvgPoolOp::create(e.builder, e.loc(), e.type(x->type, pooledDims(x, windows)), image, windows.attribute(),
                              countPadding);
  c.out(channelsFirst(e, e.computed(op.getY(), x->type)));
}

// Over all positions.
template <class Reduce>
void globalPool(NodeContext &c, Reduce reduce) {
  Ref x = c.in(0);
  Dims axes;
  for (int64_t d = 2; d < x->rank(); ++d)
    axes.push_back(d);
  c.out(c.e.reshape(reduce(x, axes), withOnes(x->dims, axes)));
}

void globalAveragePool(NodeContext &c) {
  globalPool(c, [&](const Ref &x, const Dims &axes) { return c.e.reduceMean(x, axes); });
}

void globalMaxPool(NodeContext &c) {
  globalPool(c, [&](const Ref &x, const Dims &axes) { return c.e.reduce(Reduction::Max, x, axes); });
}

} // namespace

void addPooling(TranslatorTable &table) {
  table["MaxPool"] = maxPool;
  table["AveragePool"] = averagePool;
  table["GlobalAveragePool"] = globalAveragePool;
  table["GlobalMaxPool"] = globalMaxPool;
}

} // namespace msamp::frontend
