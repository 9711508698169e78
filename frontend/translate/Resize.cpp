// Images of another size: along each dimension that changes a product with a matrix of the weights that a result gives
// to the values around its place. Images whose values are repeated a whole number of times are broadcast.
#include "frontend/ElementType.h"
#include "frontend/translate/Translator.h"

#include <algorithm>
#include <cmath>

namespace msamp::frontend {
namespace {

struct Rule {
  std::string mode, place, nearest; // mode, coordinate_transformation_mode, nearest_mode
  bool antialias = false, excludeOutside = false;
  double a = -0.75; // of the cubic
};

// A dimension that changes. By sizes the scale is their ratio, and places are computed without rounding it.
struct Change {
  int64_t from, to;
  double scale;
  bool sized;

  double back(double x) const { return sized ? x * static_cast<double>(from) / static_cast<double>(to) : x / scale; }
};

// Where value `i` of a result lies among those that it comes from (ONNX, Resize, coordinate_transformation_mode).
double placeOf(const Rule &rule, int64_t i, const Change &c) {
  const double x = static_cast<double>(i);
  if (rule.place == "asymmetric")
    return c.back(x);
  if (rule.place == "align_corners")
    return c.to == 1 ? 0 : x * static_cast<double>(c.from - 1) / static_cast<double>(c.to - 1);
  if (rule.place == "tf_half_pixel_for_nn")
    return c.back(x + 0.5);
  if (rule.place == "pytorch_half_pixel" && c.to == 1)
    return 0;
  double place = c.back(x + 0.5) - 0.5;
  if (rule.place == "half_pixel_symmetric" && !c.sized) {
    const double length = c.scale * static_cast<double>(c.from);
    place += static_cast<double>(c.from) / 2 * (1 - static_cast<double>(c.to) / length);
  }
  return place;
}

int64_t nearestOf(const Rule &rule, double place) {
  if (rule.nearest == "floor")
    return static_cast<int64_t>(std::floor(place));
  if (rule.nearest == "ceil")
    return static_cast<int64_t>(std::ceil(place));
  const double low = std::floor(place), above = place - low;
  return static_cast<int64_t>(low + (above > 0.5 || (above == 0.5 && rule.nearest == "round_prefer_ceil")));
}

// The weight of a value at a distance (cubic: Keys, 1981, Cubic convolution interpolation for digital image
// processing).
double kernel(const Rule &rule, double distance) {
  const double d = std::abs(distance), a = rule.a;
  if (rule.mode == "linear")
    return std::max(0.0, 1 - d);
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// [to][from]
std::vector<double> weightsOf(const Rule &rule, const Change &change) {
  const int64_t from = change.from, to = change.to;
  std::vector<double> weights(static_cast<size_t>(from * to));
  for (int64_t i = 0; i < to; ++i) {
    double *row = &weights[static_cast<size_t>(i * from)];
    auto clamped = [&](int64_t j) { return std::clamp<int64_t>(j, 0, from - 1); };
    const double place = placeOf(rule, i, change);
    if (rule.mode == "nearest") {
      row[clamped(nearestOf(rule, place))] = 1;
      continue;
    }
    // Images that shrink are smoothed by a kernel that is as much wider.
    const double narrow = rule.antialias ? std::min(change.scale, 1.0) : 1, radius = rule.mode == "linear" ? 1 : 2;
    const auto start = static_cast<int64_t>(std::floor(-radius / narrow)) + 1;
    const int64_t first = static_cast<int64_t>(std::ceil(place)) - 1 + start;
    double sum = 0;
    for (int64_t j = first; j < first + 2 - 2 * start; ++j) {
      if (rule.excludeOutside && j != clamped(j))
        continue;
      const double weight = kernel(rule, (static_cast<double>(j) - place) * narrow);
      row[clamped(j)] += weight;
      sum += weight;
    }
    if (rule.antialias || rule.excludeOutside)
      for (int64_t j = 0; j < from; ++j)
        row[j] /= sum;
  }
  return weights;
}

// Values of one dimension, each repeated.
Ref repeat(Emitter &e, const Ref &x, int64_t axis, int64_t times) {
  Dims apart = x->dims, dims = x->dims;
  apart.insert(apart.begin() + axis + 1, 1);
  dims[axis] *= times;
  Dims wide = apart;
  wide[axis + 1] = times;
  return e.reshape(e.broadcast(e.reshape(x, apart), wide), dims);
}

Ref alongAxis(Emitter &e, Ref x, int64_t axis, const std::vector<double> &weights, int64_t to) {
  const int64_t from = x->dims[axis], last = x->rank() - 1;
  Dims perm;
  for (int64_t d = 0; d <= last; ++d)
    perm.push_back(d);
  std::swap(perm[axis], perm[last]);
  if (axis != last)
    x = e.transpose(x, perm);
  Dims dims = x->dims;
  dims[last] = to;
  Ref matrix = e.constant(hostFromDoubles(x->type, {to, from}, weights));
  x = e.reshape(e.matmul(e.reshape(x, {countElements(x->dims) / from, from}), matrix, false, true), dims);
  return axis == last ? x : e.transpose(x, perm);
}

void resize(NodeContext &c) {
  Ref x = c.in(0);
  if (!isFloat(x->type))
    throw Unsupported("an image of other than floating-point numbers");
  Rule rule;
  rule.mode = c.getString("mode", "nearest");
  rule.place = c.getString("coordinate_transformation_mode", "half_pixel");
  rule.nearest = c.getString("nearest_mode", "round_prefer_floor");
  rule.antialias = c.getInt("antialias", 0);
  rule.excludeOutside = c.getInt("exclude_outside", 0);
  rule.a = c.getFloat("cubic_coeff_a", -0.75);
  auto check = [](const char *attribute, const std::string &value, std::initializer_list<const char *> known) {
    if (std::find(known.begin(), known.end(), value) == known.end())
      throw Invalid(std::string(attribute) + " = " + value);
  };
  check("mode", rule.mode, {"nearest", "linear", "cubic"});
  check("nearest_mode", rule.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  check("coordinate_transformation_mode", rule.place,
        {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
         "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  if (rule.place == "tf_crop_and_resize")
    throw Unsupported("a part of the image (tf_crop_and_resize)");
  if (std::string policy = c.getString("keep_aspect_ratio_policy", "stretch"); policy != "stretch")
    throw Unsupported("keep_aspect_ratio_policy = " + policy);
  Dims axes = c.getInts("axes");
  if (axes.empty())
    for (int64_t d = 0; d < x->rank(); ++d)
      axes.push_back(d);
  c.axes(axes, x->rank()); // none twice
  auto given = [&](size_t i) { return c.has(i) && countElements(c.in(i)->dims) > 0; };
  const bool sized = given(3);
  if (sized && given(2))
    throw Invalid("both scales and sizes are given");
  if (!sized && !given(2))
    throw Invalid("neither scales nor sizes are given");
  std::vector<double> scales;
  std::vector<int64_t> sizes;
  if (sized) {
    sizes = c.knownInts(c.in(3), "sizes");
  } else if (Host host = c.e.host(c.in(2))) {
    scales = doublesOf(*host);
  } else {
    throw Unsupported("scales that depend on the input");
  }
  if ((sized ? sizes.size() : scales.size()) != axes.size())
    throw Invalid("there are " + std::to_string(axes.size()) + " dimensions and " +
                  std::to_string(sized ? sizes.size() : scales.size()) + (sized ? " sizes" : " scales"));
  constexpr int64_t most = int64_t(1) << 26; // weights of a dimension
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = c.axis(axes[i], x->rank()), from = x->dims[axis];
    // Lengths by scales are computed in FP32, as exporters and runtimes do.
    const float length = sized ? 0 : static_cast<float>(from) * static_cast<float>(scales[i]);
    const bool fits = sized ? sizes[i] >= 1 : length >= 1;
    if (from < 1 || !fits)
      throw Invalid("dimension " + std::to_string(axis) + " of size " + std::to_string(from) + " becomes " +
                    (sized ? std::to_string(sizes[i]) : std::to_string(scales[i]) + " times as long"));
    if (sized ? sizes[i] > most / from : !(length <= static_cast<float>(most / from)))
      throw Unsupported("dimension " + std::to_string(axis) + " of size " + std::to_string(from) + " becomes " +
                        (sized ? std::to_string(sizes[i]) : std::to_string(scales[i]) + " times as long") +
                        ": more than 2^26 weights");
    Change change{from, sized ? sizes[i] : static_cast<int64_t>(std::floor(length)), 1, sized};
    change.scale = sized ? static_cast<double>(change.to) / static_cast<double>(from) : scales[i];
    const int64_t to = change.to;
    if (change.scale == 1 && to == from)
      continue;
    const std::vector<double> weights = weightsOf(rule, change);
    bool repeats = to % from == 0;
    for (int64_t k = 0; repeats && k < to; ++k)
      repeats = weights[static_cast<size_t>(k * from + k / (to / from))] == 1;
    x = repeats ? repeat(c.e, x, axis, to / from) : alongAxis(c.e, x, axis, weights, to);
  }
  c.out(x);
}

} // namespace

void addResize(TranslatorTable &table) {
  table["Resize"] = resize;
}

} // namespace msamp::frontend
