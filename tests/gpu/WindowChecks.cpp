// Convolutions and pools on the CPU and on the GPU: the layers of residual networks, and what the library may not take.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tests/gpu/CheckTensor.h"

namespace msamp::test {

using namespace runtime;

namespace {

using Shape = std::vector<int64_t>;

struct Case {
  std::string name;
  Type type;
  Shape x;     // [N, positions.., C]
  int64_t out; // channels of the windows
  Shape size, strides, low, high, dilations;
  int64_t groups = 1;
  Type filter = Type::None; // the gradient of the filter alone, in this type
};

Window windowOf(const Case &c) {
  Window w;
  w.rank = static_cast<unsigned>(c.size.size());
  std::copy(c.size.begin(), c.size.end(), w.size);
  std::copy(c.strides.begin(), c.strides.end(), w.strides);
  std::copy(c.low.begin(), c.low.end(), w.low);
  std::copy(c.high.begin(), c.high.end(), w.high);
  std::copy(c.dilations.begin(), c.dilations.end(), w.dilations);
  return w;
}

Shape windowsShape(const Case &c) {
  Shape shape{c.x[0]};
  for (size_t d = 0; d < c.size.size(); ++d)
    shape.push_back((c.x[d + 1] + c.low[d] + c.high[d] - (c.size[d] - 1) * c.dilations[d] - 1) / c.strides[d] + 1);
  shape.push_back(c.out);
  return shape;
}

std::string describe(const Case &c) {
  return fmt::format("{} {} {} -> {}, windows {} by {}{}{}", c.name, nameOf(c.type), fmt::join(c.x, "x"), c.out,
                     fmt::join(c.size, "x"), fmt::join(c.strides, "x"),
                     c.groups > 1 ? fmt::format(" in {} groups", c.groups) : "",
                     c.filter != Type::None ? fmt::format(", filter {}", nameOf(c.filter)) : "");
}

// Compares one result with the CPU's, repeats it for its bits, and measures it.
struct Pass {
  Devices devices;
  bool time;
  bool good = true;
  std::string detail = "";

  template <class Run>
  void check(const std::string &name, const CheckTensor &result, double flops, Run &&run) {
    run(devices.gpu, true);
    std::vector<std::byte> first = result.download();
    double ms = 0;
    if (time)
      ms = timeOf(devices.gpu, detail + name + describeOnce(), [&] { run(devices.gpu, true); });
    else
      run(devices.gpu, true);
    const bool same = result.download() == first;
    run(devices.cpu, false);
    const Tensor reference = result.host();
    const Difference d =
        compare(valuesOf(devices.cpu, at(reference, result, first)), valuesOf(devices.cpu, reference), 0, 1);
    const double limit = reference.type == Type::F32 ? 1e-5 : 1.2 * unitOf(reference.type);
    good &= d.finite && d.rms <= limit && same;
    detail += fmt::format("{}{} {:.1e}{}", detail.empty() ? "" : ", ", name, d.rms, same ? "" : " DIFFERS when repeated");
    if (ms > 0)
      detail += flops > 0 ? fmt::format(" {:.3f} ms {:.0f} TFLOP/s", ms, flops / ms / 1e9) : fmt::format(" {:.3f} ms", ms);
  }
  static std::string describeOnce() {
    static int next = 0;
    return std::to_string(next++);
  }
};

void checkConv(Devices devices, Report &report, const Case &c) {
  const std::string name = "conv " + describe(c);
  const Shape y = windowsShape(c);
  Shape filterShape{c.out};
  filterShape.insert(filterShape.end(), c.size.begin(), c.size.end());
  filterShape.push_back(c.x.back() / c.groups);
  double flops = 2;
  for (int64_t extent : y)
    flops *= static_cast<double>(extent);
  for (size_t d = 1; d < filterShape.size(); ++d)
    flops *= static_cast<double>(filterShape[d]);
  if (!report.wants(name) || (report.quick && flops > 2e9))
    return;
  const Type filterType = c.filter == Type::None ? c.type : c.filter;
  CheckTensor x(devices, c.type, c.x), filter(devices, filterType, filterShape), dY(devices, c.type, y),
      gotY(devices, c.type, y), gotX(devices, c.type, c.x), gotFilter(devices, filterType, filterShape);
  x.random(1, 1);
  filter.random(2, 1);
  dY.random(3, 1);
  for (CheckTensor *result : {&gotY, &gotX, &gotFilter})
    result->fill(0x5a);
  auto run = [&](ConvPass pass, const CheckTensor &image, const CheckTensor &weights, const CheckTensor &windows) {
    return [&, pass](Device &device, bool onGpu) {
      auto side = [&](const CheckTensor &t) { return onGpu ? t.device() : t.host(); };
      device.conv({pass, side(image), side(weights), side(windows), windowOf(c), c.groups});
    };
  };
  Pass pass{devices, flops > 1e9};
  try {
    if (c.filter == Type::None) {
      pass.check("y", gotY, flops, run(ConvPass::Forward, x, filter, gotY));
      pass.check("dx", gotX, flops, run(ConvPass::ImageGradient, gotX, filter, dY));
    }
    pass.check("dfilter", gotFilter, flops, run(ConvPass::FilterGradient, x, gotFilter, dY));
  } catch (const std::exception &error) {
    return report.add(name, false, error.what());
  }
  report.add(name, pass.good, pass.detail);
}

void checkPool(Devices devices, Report &report, const Case &c, bool largest) {
  const std::string name = (largest ? "max pool " : "average pool ") + describe(c);
  const Shape shape = windowsShape(c);
  if (!report.wants(name))
    return;
  CheckTensor x(devices, c.type, c.x), dY(devices, c.type, shape), y(devices, c.type, shape), dX(devices, c.type, c.x),
      tap(devices, Type::U8, shape);
  x.random(1, 1);
  dY.random(2, 1);
  for (CheckTensor *result : {&y, &dX, &tap})
    result->fill(0x5a);
  if (report.quick && x.memory().size() > (size_t{1} << 24))
    return;
  auto run = [&](bool gradient, const CheckTensor &image, const CheckTensor &windows) {
    return [&, gradient](Device &device, bool onGpu) {
      auto side = [&](const CheckTensor &t) { return onGpu ? t.device() : t.host(); };
      PoolArgs args;
      args.largest = largest;
      args.gradient = gradient;
      args.countPadding = c.groups > 1; // in a pool's case this alone
      args.x = side(image);
      args.y = side(windows);
      args.tap = side(tap);
      args.window = windowOf(c);
      device.pool(args);
    };
  };
  Pass pass{devices, x.memory().size() > (size_t{1} << 22)};
  try {
    pass.check("y", y, 0, run(false, x, y));
    if (largest && tap.download() != tap.memory()) {
      pass.good = false;
      pass.detail += ", taps DIFFER";
    }
    pass.check("dx", dX, 0, run(true, dX, dY));
  } catch (const std::exception &error) {
    return report.add(name, false, error.what());
  }
  report.add(name, pass.good, pass.detail);
}

} // namespace

void checkWindows(Devices devices, Report &report) {
  const Type bf = Type::BF16, f16 = Type::F16, f32 = Type::F32;
  const std::vector<Case> convolutions = {
      {"stem", bf, {4, 64, 64, 3}, 64, {7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}},
      {"stem", f32, {2, 32, 32, 3}, 16, {7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}},
      {"block", bf, {8, 14, 14, 64}, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {"block", f16, {8, 14, 14, 64}, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {"block", f32, {4, 8, 8, 16}, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {"gradient", bf, {8, 14, 14, 64}, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, f32},
      {"shortcut", bf, {8, 14, 14, 64}, 128, {1, 1}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
      {"depthwise", bf, {4, 14, 14, 64}, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 64},
      {"depthwise", bf, {4, 14, 14, 96}, 96, {7, 7}, {1, 1}, {3, 3}, {3, 3}, {1, 1}, 96},
      {"grouped", bf, {4, 14, 14, 64}, 64, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 4},
      {"grouped", f32, {2, 9, 9, 12}, 8, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 4},
      {"dilated", bf, {4, 20, 20, 32}, 32, {3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},
      {"uneven", bf, {2, 11, 9, 24}, 40, {3, 2}, {2, 1}, {1, 0}, {2, 1}, {1, 1}},
      {"odd", bf, {2, 11, 9, 5}, 7, {3, 2}, {2, 1}, {1, 0}, {2, 1}, {1, 1}},
      {"odd", f32, {2, 11, 9, 5}, 7, {3, 2}, {2, 3}, {1, 0}, {2, 1}, {2, 1}},
      {"line", bf, {4, 100, 32}, 64, {5}, {2}, {4}, {0}, {1}},
      {"line", f32, {4, 50, 8}, 12, {5}, {2}, {4}, {0}, {1}},
      {"volume", bf, {2, 8, 8, 8, 16}, 32, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
      {"resnet50", bf, {64, 56, 56, 64}, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
      {"resnet50", bf, {64, 14, 14, 256}, 256, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
  };
  for (const Case &one : convolutions)
    checkConv(devices, report, one);
  const std::vector<Case> pools = {
      {"stem", bf, {4, 32, 32, 64}, 64, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {"stem", f32, {2, 16, 16, 16}, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
      {"stem", f16, {2, 16, 16, 16}, 16, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 2},
      {"odd", bf, {2, 11, 9, 5}, 5, {3, 2}, {2, 1}, {1, 0}, {1, 1}, {1, 1}, 2},
      {"odd", f32, {2, 11, 9, 5}, 5, {2, 3}, {1, 3}, {0, 1}, {1, 0}, {2, 1}},
      {"line", bf, {4, 100, 32}, 32, {4}, {3}, {1}, {1}, {1}},
      {"volume", f32, {2, 6, 6, 6, 4}, 4, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, {1, 1, 1}},
      {"resnet50", bf, {64, 112, 112, 64}, 64, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
  };
  for (const Case &one : pools)
    for (bool largest : {true, false})
      checkPool(devices, report, one, largest);
}

} // namespace msamp::test
