// Convolutions, pools and their gradients against plain loops.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "tests/unit/runtime/ExpectNear.h"
#include "tests/unit/runtime/TestTensor.h"

using namespace msamp::runtime;
using namespace msamp::test;

namespace {

using Shape = std::vector<int64_t>;

struct Case {
  Type type;
  Shape x;      // [N, positions.., C]
  int64_t out;  // channels of y; of a pool those of x
  Shape size, strides, low, high, dilations;
  int64_t groups = 1;
  bool beyond = false; // the last window may leave the padding
};

Window windowOf(const Case &c) {
  Window w;
  w.rank = static_cast<unsigned>(c.size.size());
  for (unsigned d = 0; d < w.rank; ++d) {
    w.size[d] = c.size[d];
    w.strides[d] = c.strides[d];
    w.low[d] = c.low[d];
    w.high[d] = c.high[d];
    w.dilations[d] = c.dilations[d];
  }
  return w;
}

Shape windowsShape(const Case &c) {
  Shape shape{c.x[0]};
  for (size_t d = 0; d < c.size.size(); ++d) {
    const int64_t room = c.x[d + 1] + c.low[d] + c.high[d] - (c.size[d] - 1) * c.dilations[d] - 1;
    shape.push_back((room + (c.beyond ? c.strides[d] - 1 : 0)) / c.strides[d] + 1);
  }
  shape.push_back(c.out);
  return shape;
}

int64_t product(const Shape &shape, size_t begin, size_t end) {
  int64_t n = 1;
  for (size_t d = begin; d < end; ++d)
    n *= shape[d];
  return n;
}

// visit(image, window, position or -1 in padding, tap) for all taps; positions are counted in [N, positions..]. `counted`
// says whether the tap is on the image or its padding.
void taps(const Case &c, const std::function<void(int64_t, int64_t, int64_t, int64_t, bool)> &visit) {
  const Shape y = windowsShape(c);
  const size_t rank = c.size.size();
  const int64_t windows = product(y, 1, rank + 1), positions = product(c.x, 1, rank + 1), count = product(c.size, 0, rank);
  for (int64_t n = 0; n < c.x[0]; ++n)
    for (int64_t w = 0; w < windows; ++w)
      for (int64_t tap = 0; tap < count; ++tap) {
        int64_t position = 0, restW = w, restTap = tap, stride = 1;
        bool on = true, counted = true;
        for (size_t d = rank; d-- > 0;) {
          const int64_t at = restW % y[d + 1] * c.strides[d] - c.low[d] + restTap % c.size[d] * c.dilations[d];
          restW /= y[d + 1];
          restTap /= c.size[d];
          on = on && at >= 0 && at < c.x[d + 1];
          counted = counted && at >= -c.low[d] && at < c.x[d + 1] + c.high[d];
          position += at * stride;
          stride *= c.x[d + 1];
        }
        visit(n, n * windows + w, on ? n * positions + position : -1, tap, counted);
      }
}

double toleranceOf(Type type) { return type == Type::F32 ? 2e-6 : 3e-3; }

class Convolution : public testing::TestWithParam<Case> {};

TEST_P(Convolution, AndItsGradientsAreSumsOverWindows) {
  const Case &c = GetParam();
  const int64_t in = c.x.back(), perGroup = in / c.groups, outPerGroup = c.out / c.groups;
  Shape filterShape{c.out};
  filterShape.insert(filterShape.end(), c.size.begin(), c.size.end());
  filterShape.push_back(perGroup);
  const int64_t count = product(c.size, 0, c.size.size());
  TestTensor x(c.type, c.x), filter(c.type, filterShape), dY(c.type, windowsShape(c));
  x.random(1);
  filter.random(2);
  dY.random(3);
  std::vector<double> y(static_cast<size_t>(dY.count())), dX(static_cast<size_t>(x.count())), dF(static_cast<size_t>(filter.count()));
  taps(c, [&](int64_t, int64_t window, int64_t position, int64_t tap, bool) {
    if (position < 0)
      return;
    for (int64_t o = 0; o < c.out; ++o)
      for (int64_t i = 0; i < perGroup; ++i) {
        const int64_t xi = position * in + o / outPerGroup * perGroup + i, fi = (o * count + tap) * perGroup + i, yi = window * c.out + o;
        y[static_cast<size_t>(yi)] += x.get(xi) * filter.get(fi);
        dX[static_cast<size_t>(xi)] += dY.get(yi) * filter.get(fi);
        dF[static_cast<size_t>(fi)] += dY.get(yi) * x.get(xi);
      }
  });
  std::vector<std::vector<std::byte>> bits;
  for (unsigned threads : {2u, 1u}) {
    auto device = makeDevice({"cpu", threads});
    TestTensor gotY(c.type, windowsShape(c)), gotX(c.type, c.x), gotF(c.type, filterShape);
    device->conv({ConvPass::Forward, x, filter, gotY, windowOf(c), c.groups});
    device->conv({ConvPass::ImageGradient, gotX, filter, dY, windowOf(c), c.groups});
    device->conv({ConvPass::FilterGradient, x, gotF, dY, windowOf(c), c.groups});
    const double tolerance = toleranceOf(c.type);
    expectNear(gotY, y, tolerance, "y");
    expectNear(gotX, dX, tolerance, "dx");
    expectNear(gotF, dF, tolerance, "dfilter");
    for (const TestTensor *t : {&gotY, &gotX, &gotF}) {
      const Tensor &tensor = *t;
      bits.emplace_back(tensor.data, tensor.data + static_cast<size_t>(tensor.elements()) * sizeOf(tensor.type));
    }
  }
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(bits[i], bits[i + 3]) << "result " << i << " depends on the number of threads";
}

INSTANTIATE_TEST_SUITE_P(Cases, Convolution,
    testing::Values(Case{Type::F32, {3, 9, 8, 5}, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        Case{Type::F32, {2, 16, 16, 16}, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
        Case{Type::F32, {2, 11, 7, 3}, 16, {7, 5}, {2, 3}, {3, 0}, {2, 4}, {1, 1}},
        Case{Type::F32, {1, 12, 12, 8}, 6, {3, 2}, {1, 1}, {2, 1}, {2, 0}, {2, 3}},
        Case{Type::F32, {2, 9, 9, 12}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 4},
        Case{Type::F32, {2, 10, 9, 16}, 16, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, 16},
        Case{Type::F32, {2, 5, 5, 4}, 8, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
        Case{Type::F32, {2, 20, 6}, 10, {5}, {2}, {4}, {1}, {1}},
        Case{Type::F32, {1, 5, 6, 7, 4}, 5, {3, 2, 3}, {1, 2, 2}, {1, 0, 1}, {1, 1, 0}, {1, 1, 1}},
        Case{Type::F32, {40, 4, 4, 3}, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        Case{Type::BF16, {3, 8, 8, 16}, 24, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
        Case{Type::BF16, {2, 9, 9, 8}, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 8}));

class Pooling : public testing::TestWithParam<Case> {};

TEST_P(Pooling, OfTheLargestTakesTheFirstOfEqualOnes) {
  const Case &c = GetParam();
  const int64_t channels = c.x.back();
  TestTensor x(c.type, c.x), y(c.type, windowsShape(c)), tap(Type::U8, windowsShape(c)), dY(c.type, windowsShape(c)), dX(c.type, c.x);
  x.random(1);
  for (int64_t i = 0; i < x.count(); ++i)
    x.set(i, std::round(2 * x.get(i)) / 2); // many are equal
  x.set(3, std::numeric_limits<double>::quiet_NaN());
  dY.random(2);
  std::vector<double> best(static_cast<size_t>(y.count()));
  std::vector<int64_t> from(best.size(), -1), number(best.size());
  taps(c, [&](int64_t, int64_t window, int64_t position, int64_t tap, bool) {
    for (int64_t i = 0; i < channels && position >= 0; ++i) {
      const auto at = static_cast<size_t>(window * channels + i);
      const double value = x.get(position * channels + i);
      if (from[at] < 0 || value > best[at] || (std::isnan(value) && !std::isnan(best[at]))) {
        best[at] = value;
        from[at] = position * channels + i;
        number[at] = tap;
      }
    }
  });
  auto device = makeDevice({"cpu", 2});
  PoolArgs args;
  args.x = x;
  args.y = y;
  args.tap = tap;
  args.window = windowOf(c);
  device->pool(args);
  std::vector<double> gradient(static_cast<size_t>(x.count()));
  const auto *numbers = reinterpret_cast<const uint8_t *>(tap.tensor().data);
  for (int64_t i = 0; i < y.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_TRUE(y.get(i) == best[at] || (std::isnan(y.get(i)) && std::isnan(best[at]))) << i;
    ASSERT_EQ(numbers[i], number[at]) << i;
    gradient[static_cast<size_t>(from[at])] += dY.get(i);
  }
  args.gradient = true;
  args.x = dX;
  args.y = dY;
  device->pool(args);
  expectNear(dX, gradient, toleranceOf(c.type), "dx");
}

TEST_P(Pooling, OfMeansCountsWhatItIsToldTo) {
  const Case &c = GetParam();
  const int64_t channels = c.x.back();
  TestTensor x(c.type, c.x), dY(c.type, windowsShape(c));
  x.random(1);
  dY.random(2);
  for (bool padding : {false, true}) {
    std::vector<double> counts(static_cast<size_t>(dY.count() / channels)), y(static_cast<size_t>(dY.count())),
        dX(static_cast<size_t>(x.count()));
    taps(c, [&](int64_t, int64_t window, int64_t position, int64_t, bool counted) {
      counts[static_cast<size_t>(window)] += padding ? counted : position >= 0;
    });
    taps(c, [&](int64_t, int64_t window, int64_t position, int64_t, bool) {
      for (int64_t i = 0; i < channels && position >= 0; ++i) {
        y[static_cast<size_t>(window * channels + i)] += x.get(position * channels + i) / counts[static_cast<size_t>(window)];
        dX[static_cast<size_t>(position * channels + i)] += dY.get(window * channels + i) / counts[static_cast<size_t>(window)];
      }
    });
    auto device = makeDevice({"cpu", 2});
    TestTensor gotY(c.type, windowsShape(c)), gotX(c.type, c.x);
    PoolArgs args;
    args.largest = false;
    args.countPadding = padding;
    args.window = windowOf(c);
    args.x = x;
    args.y = gotY;
    device->pool(args);
    expectNear(gotY, y, toleranceOf(c.type), "y");
    args.gradient = true;
    args.x = gotX;
    args.y = dY;
    device->pool(args);
    expectNear(gotX, dX, toleranceOf(c.type), "dx");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Pooling,
    testing::Values(Case{Type::F32, {2, 8, 9, 5}, 5, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
        Case{Type::F32, {1, 7, 7, 3}, 3, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, 1, true},
        Case{Type::F32, {2, 10, 6, 4}, 4, {3, 2}, {1, 3}, {2, 0}, {0, 1}, {2, 1}},
        Case{Type::F32, {2, 13, 4}, 4, {4}, {3}, {1}, {1}, {1}, 1, true},
        Case{Type::F32, {1, 4, 5, 6, 3}, 3, {2, 3, 2}, {2, 1, 2}, {0, 1, 0}, {1, 1, 0}, {1, 1, 1}},
        Case{Type::BF16, {2, 8, 8, 16}, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}}));

} // namespace
