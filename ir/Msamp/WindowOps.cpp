// Windows over images: how many fit, and the verifiers of the ops that move them.
#include "ir/Msamp/Msamp.h"
#include "runtime/core/WindowAxis.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

#define GET_ATTRDEF_CLASSES
#include "ir/Msamp/MsampAttributes.cpp.inc"

namespace msamp {

void MsampDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/Msamp/MsampAttributes.cpp.inc"
      >();
}

LogicalResult WindowAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> size,
                                 ArrayRef<int64_t> strides, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                                 ArrayRef<int64_t> dilations) {
  if (size.empty() || size.size() > 3)
    return emitError() << "a window over " << size.size() << " dimensions, expected 1 to 3";
  for (ArrayRef<int64_t> list : {strides, low, high, dilations})
    if (list.size() != size.size())
      return emitError() << "a window over " << size.size() << " dimensions with [" << list << "]";
  for (size_t d = 0; d < size.size(); ++d)
    if (size[d] < 1 || strides[d] < 1 || dilations[d] < 1 || low[d] < 0 || high[d] < 0)
      return emitError() << "dimension " << d << ": size " << size[d] << ", stride " << strides[d] << " and dilation "
                         << dilations[d] << " are at least 1, padding " << low[d] << " and " << high[d]
                         << " at least 0";
  return success();
}

static runtime::WindowAxis axisOf(const WindowAttr &window, int64_t d, int64_t extent) {
  return {extent, window.getSize()[d], window.getStrides()[d], window.getLow()[d], window.getHigh()[d],
          window.getDilations()[d]};
}

int64_t WindowAttr::count(int64_t d, int64_t extent) const {
  return axisOf(*this, d, extent).count();
}

int64_t WindowAttr::countBeyond(int64_t d, int64_t extent) const {
  return axisOf(*this, d, extent).countBeyond();
}

int64_t WindowAttr::taps() const {
  int64_t n = 1;
  for (int64_t s : getSize())
    n *= s;
  return n;
}

bool WindowAttr::allTouch(int64_t d, int64_t windows, int64_t extent) const {
  return axisOf(*this, d, extent).firstInPadding(windows) < 0;
}

namespace {

RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

// The windows of an image; `beyond`: the last one may leave the padding.
LogicalResult checkWindows(Operation *op, RankedTensorType image, RankedTensorType windows, WindowAttr window,
                           bool beyond) {
  int64_t rank = window.rank() + 2;
  if (image.getRank() != rank || windows.getRank() != rank)
    return op->emitOpError() << "ranks of " << image << " and " << windows << ", expected " << rank;
  if (image.getDimSize(0) != windows.getDimSize(0))
    return op->emitOpError() << "batches of " << image << " and " << windows << " differ";
  for (int64_t d = 0; d < window.rank(); ++d) {
    int64_t extent = image.getDimSize(d + 1), n = windows.getDimSize(d + 1), fit = window.count(d, extent);
    if (n != fit && !(beyond && n == window.countBeyond(d, extent)))
      return op->emitOpError() << "dimension " << d + 1 << ": " << fit << " windows fit into " << extent
                               << " positions, not " << n;
  }
  return success();
}

LogicalResult checkConv(Operation *op, Value x, Value filter, Value y, WindowAttr window, int64_t groups) {
  auto image = typeOf(x), weights = typeOf(filter), result = typeOf(y);
  if (failed(checkWindows(op, image, result, window, /*beyond=*/false)))
    return failure();
  if (weights.getRank() != image.getRank() || weights.getShape().drop_front().drop_back() != window.getSize())
    return op->emitOpError() << "filter of type " << weights << " for windows of [" << window.getSize() << "]";
  int64_t in = image.getShape().back(), out = result.getShape().back();
  if (groups < 1 || in % groups || out % groups)
    return op->emitOpError() << groups << " groups of " << in << " and " << out << " channels";
  if (weights.getDimSize(0) != out || weights.getShape().back() != in / groups)
    return op->emitOpError() << "filter of type " << weights << ", expected " << out << " filters of " << in / groups
                             << " channels";
  return success();
}

LogicalResult checkPool(Operation *op, Value x, Value y, WindowAttr window, bool needsImage) {
  auto image = typeOf(x), result = typeOf(y);
  if (failed(checkWindows(op, image, result, window, /*beyond=*/true)))
    return failure();
  if (image.getShape().back() != result.getShape().back())
    return op->emitOpError() << "channels of " << image << " and " << result << " differ";
  for (int64_t d = 0; d < window.rank() && needsImage; ++d)
    if (!window.allTouch(d, result.getDimSize(d + 1), image.getDimSize(d + 1)))
      return op->emitOpError() << "dimension " << d + 1 << ": a window lies in padding alone";
  return success();
}

LogicalResult checkTaps(Operation *op, Value tap, Value y, WindowAttr window) {
  if (typeOf(tap).getShape() != typeOf(y).getShape())
    return op->emitOpError() << "tap of type " << tap.getType() << " for values of type " << y.getType();
  if (window.taps() > 256)
    return op->emitOpError() << window.taps() << " taps, at most 256 are numbered by a byte";
  return success();
}

} // namespace

LogicalResult ConvOp::verify() {
  return checkConv(*this, getX(), getFilter(), getY(), getWindow(), getGroups());
}
LogicalResult ConvDgradOp::verify() {
  return checkConv(*this, getDX(), getFilter(), getDY(), getWindow(), getGroups());
}
LogicalResult ConvWgradOp::verify() {
  return checkConv(*this, getX(), getDFilter(), getDY(), getWindow(), getGroups());
}

LogicalResult MaxPoolOp::verify() {
  if (failed(checkPool(*this, getX(), getY(), getWindow(), /*needsImage=*/true)))
    return failure();
  return checkTaps(*this, getTap(), getY(), getWindow());
}
LogicalResult MaxPoolGradOp::verify() {
  if (failed(checkPool(*this, getDX(), getDY(), getWindow(), /*needsImage=*/true)))
    return failure();
  return checkTaps(*this, getTap(), getDY(), getWindow());
}

LogicalResult AvgPoolOp::verify() {
  return checkPool(*this, getX(), getY(), getWindow(), !getCountPadding());
}
LogicalResult AvgPoolGradOp::verify() {
  return checkPool(*this, getDX(), getDY(), getWindow(), !getCountPadding());
}

} // namespace msamp
