// Scatter-adds on the CPU and on the GPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "tests/gpu/CheckTensor.h"

namespace msamp::test {

using namespace runtime;

namespace {

struct Case {
  Type updates, table;
  int64_t count, rows, width;
};

void check(Devices devices, Report &report, const Case &x) {
  const std::string name =
      fmt::format("scatter_add {}x{} {} into {} rows of {}", x.count, x.width, nameOf(x.updates), x.rows, nameOf(x.table));
  if (!report.wants(name) || (report.quick && x.count * x.width > 1 << 22))
    return;
  CheckTensor updates(devices, x.updates, {x.count, x.width}), indices(devices, Type::I64, {x.count}),
      table(devices, x.table, {x.rows, x.width});
  updates.random(1, 1);
  indices.indices(2, x.rows);
  table.fill(0xff);
  auto run = [&] { devices.gpu.scatterAdd(updates.device(), indices.device(), table.device()); };
  run();
  std::vector<std::byte> bytes = table.download();
  const double ms = x.count * x.width > 1 << 22 ? timeOf(devices.gpu, name, run) : (run(), 0.0);
  const bool same = table.download() == bytes;
  devices.cpu.scatterAdd(updates.host(), indices.host(), table.host());
  const std::vector<float> expected = valuesOf(devices.cpu, table.host()),
                           actual = valuesOf(devices.cpu, at(table.host(), table, bytes));
  // Partial sums of n values of size 1 are about 3 sqrt(n), and n roundings of them in another order differ by sqrt(n)
  // of their halves of a unit.
  std::map<int64_t, int64_t> updatesOf;
  int64_t most = 0;
  for (int64_t i = 0; i < x.count; ++i) {
    int64_t row;
    std::memcpy(&row, indices.memory().data() + i * 8, 8);
    most = std::max(most, ++updatesOf[row < 0 ? row + x.rows : row]);
  }
  const Difference d =
      compare(actual, expected, unitOf(x.table) * 1.01, 3 * static_cast<double>(most) * std::exp2(-24));
  const double bytesMoved = static_cast<double>(x.count * x.width * static_cast<int64_t>(sizeOf(x.updates)) +
                                                x.rows * x.width * static_cast<int64_t>(sizeOf(x.table)));
  report.add(name, d.finite && d.worst <= 1 && same,
             fmt::format("at most {} a row, {:.2g} of what is allowed{}{}", most, d.worst, same ? "" : ", TWO RUNS DIFFER",
                         ms > 0 ? fmt::format(", {:.3f} ms, {:.0f} GB/s", ms, bytesMoved / ms * 1e-6) : ""));
}

} // namespace

void checkScatter(Devices devices, Report &report) {
  for (const Case &x : {Case{Type::BF16, Type::BF16, 1000, 300, 64}, Case{Type::BF16, Type::F32, 5000, 17, 520},
                        Case{Type::F32, Type::F32, 3000, 1, 16}, Case{Type::F32, Type::BF16, 100, 1000, 1032},
                        Case{Type::F16, Type::F32, 2000, 90, 40}, Case{Type::BF16, Type::BF16, 1500, 50, 7},
                        Case{Type::BF16, Type::BF16, 32768, 50304, 2048}, Case{Type::BF16, Type::F32, 32768, 50304, 768}})
    check(devices, report, x);
}

} // namespace msamp::test
