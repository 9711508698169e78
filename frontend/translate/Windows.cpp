#include "frontend/translate/Windows.h"

#include <algorithm>

namespace msamp::frontend {

Windows::Windows(NodeContext &c, const Dims &image, Dims given) : size(std::move(given)), c(c) {
  if (image.size() < 3)
    throw Invalid("an image of shape " + printDims(image) + "; batch, channels and positions were expected");
  if (image.size() > 5)
    throw Unsupported("windows over " + std::to_string(image.size() - 2) + " dimensions; at most 3 are supported");
  positions.assign(image.begin() + 2, image.end());
  size_t rank = positions.size();
  auto list = [&](const char *name, size_t length, int64_t fallback, int64_t least) {
    Dims values = c.getInts(name);
    if (values.empty())
      values.assign(length, fallback);
    if (values.size() != length)
      throw Invalid(std::string(name) + " " + printDims(values) + " for an image of shape " + printDims(image));
    if (std::any_of(values.begin(), values.end(), [&](int64_t v) { return v < least || v > (int64_t(1) << 24); }))
      throw Invalid(std::string(name) + " " + printDims(values) + ": a value is below " + std::to_string(least) +
                    " or beyond 2^24");
    return values;
  };
  Dims kernel = list("kernel_shape", rank, 0, 0);
  if (size.empty())
    size = kernel;
  else if (c.attribute("kernel_shape") && kernel != size)
    throw Invalid("kernel_shape " + printDims(kernel) + " for filters of size " + printDims(size));
  if (size.size() != rank || std::any_of(size.begin(), size.end(), [](int64_t s) { return s < 1; }))
    throw Invalid("windows of size " + printDims(size) + " for an image of shape " + printDims(image));
  strides = list("strides", rank, 1, 1);
  dilations = list("dilations", rank, 1, 1);
  beyond = c.getInt("ceil_mode", 0) != 0;

  Dims pads = c.getInts("pads");
  if (std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p < 0; }))
    throw Unsupported("negative pads " + printDims(pads) + "; slice the image before it instead");
  pads = list("pads", 2 * rank, 0, 0);
  low.assign(pads.begin(), pads.begin() + rank);
  high.assign(pads.begin() + rank, pads.end());
  place(c.getString("auto_pad", "NOTSET"));
}

void Windows::place(const std::string &autoPad) {
  if (autoPad.empty() || autoPad == "NOTSET")
    return;
  bool upper = autoPad == "SAME_UPPER";
  if (!upper && autoPad != "SAME_LOWER" && autoPad != "VALID")
    throw Invalid("auto_pad " + autoPad + " is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID");
  for (size_t d = 0; d < size.size(); ++d) {
    low[d] = high[d] = 0;
    if (autoPad == "VALID")
      continue;
    // As many windows as the stride goes into the image; an odd rest goes to the end that the mode names.
    int64_t count = (positions[d] + strides[d] - 1) / strides[d], reach = (size[d] - 1) * dilations[d] + 1;
    int64_t pad = std::max<int64_t>(0, (count - 1) * strides[d] + reach - positions[d]);
    low[d] = upper ? pad / 2 : pad - pad / 2;
    high[d] = pad - low[d];
  }
}

bool Windows::padded() const {
  auto any = [](const Dims &pads) { return std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; }); };
  return any(low) || any(high);
}

WindowAttr Windows::attribute() const {
  return WindowAttr::get(c.e.builder.getContext(), size, strides, low, high, dilations);
}

Dims Windows::counts() const {
  Dims counts;
  for (size_t d = 0; d < size.size(); ++d) {
    counts.push_back(beyond ? attribute().countBeyond(d, positions[d]) : attribute().count(d, positions[d]));
    if (counts.back() < 1)
      throw Invalid("a window of " + std::to_string(attribute().reach(d)) + " positions for an image of " +
                    std::to_string(positions[d]) + " with padding of " + std::to_string(low[d]) + " and " +
                    std::to_string(high[d]));
  }
  return counts;
}

Ref channelsLast(Emitter &e, const Ref &x) {
  Dims perm{0};
  for (int64_t d = 2; d < x->rank(); ++d)
    perm.push_back(d);
  perm.push_back(1);
  return e.transpose(x, perm);
}

Ref channelsFirst(Emitter &e, const Ref &x) {
  Dims perm{0, x->rank() - 1};
  for (int64_t d = 1; d + 1 < x->rank(); ++d)
    perm.push_back(d);
  return e.transpose(x, perm);
}

} // namespace msamp::frontend
