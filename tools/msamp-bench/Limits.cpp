#include "tools/msamp-bench/Limits.h"

#include "runtime/core/Error.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace msamp::bench {
using namespace runtime;

namespace {

// Dense TFLOP/s of the data sheets; names are looked for in this order.
struct Sheet {
  const char *name;
  double bf16, fp8, fp32; // FP8 where there is none: computed in BF16
};
constexpr Sheet sheets[] = {
    {"H100 PCIe", 756, 1513, 378}, {"H100 NVL", 835, 1671, 418}, {"H200 NVL", 835, 1671, 418}, {"H20", 148, 296, 74},
    {"H200", 989.5, 1979, 494.5}, {"H100", 989.5, 1979, 494.5},  {"GH200", 989.5, 1979, 494.5}, {"B200", 2250, 4500, 1125},
    {"B300", 2250, 4500, 1125},   {"A100", 312, 312, 156},
};

const Sheet *sheetOf(const std::string &device) {
  for (const Sheet &sheet : sheets) {
    const size_t at = device.find(sheet.name);
    const std::string name = sheet.name;
    // "H20" is not the beginning of "H200".
    if (at != std::string::npos && (at + name.size() == device.size() || !std::isalnum(device[at + name.size()])))
      return &sheet;
  }
  return nullptr;
}

Tensor vectorOf(std::byte *data, int64_t elements) {
  Tensor tensor;
  tensor.data = data;
  tensor.type = Type::F32;
  tensor.rank = 1;
  tensor.shape[0] = elements;
  tensor.strides[0] = 1;
  return tensor;
}

Tensor matrixOf(std::byte *data, int64_t size) {
  Tensor tensor = vectorOf(data, size);
  tensor.rank = 2;
  tensor.shape[1] = tensor.strides[0] = size;
  tensor.strides[1] = 1;
  return tensor;
}

// Median of some runs after a first one.
double timeOf(Device &device, unsigned runs, const std::function<void(unsigned)> &body) {
  for (unsigned i = 0; i <= runs; ++i) {
    device.mark(i);
    body(i);
  }
  device.mark(runs + 1);
  const std::vector<double> marks = device.marks(runs + 2);
  std::vector<double> times;
  for (unsigned i = 1; i <= runs; ++i)
    times.push_back(marks[i + 1] - marks[i]);
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

} // namespace

Limits::Limits(Device &device, std::optional<double> peak) : device(device), given(peak) {
  const Sheet *sheet = sheetOf(device.description());
  source = given ? "as given" : sheet ? fmt::format("data sheet of {}", sheet->name) : "a product of FP32 matrices measured here";
}

Limits::~Limits() {
  if (room)
    device.release(room, roomBytes);
}

double Limits::peak(Type operands) {
  if (given)
    return *given * 1e12;
  if (const Sheet *sheet = sheetOf(device.description()))
    return (isFp8(operands) ? sheet->fp8 : sizeOf(operands) == 2 ? sheet->bf16 : sheet->fp32) * 1e12;
  if (!measured)
    measured = measureProduct();
  return *measured;
}

void Limits::makeRoom(uint64_t bytes) {
  if (bytes <= roomBytes)
    return;
  if (room)
    device.release(room, roomBytes);
  room = nullptr;
  roomBytes = bytes;
  room = static_cast<std::byte *>(device.allocate(bytes));
  device.fill(vectorOf(room, static_cast<int64_t>(bytes / sizeof(float))), 1.0); // pages are there when they are measured
}

double Limits::measureProduct() {
  constexpr int64_t size = 1024;
  constexpr uint64_t matrix = size * size * sizeof(float);
  makeRoom(3 * matrix);
  MatMulArgs args;
  args.a = matrixOf(room, size);
  args.b = matrixOf(room + matrix, size);
  args.c = matrixOf(room + 2 * matrix, size);
  return 2.0 * size * size * size / timeOf(device, 5, [&](unsigned) { device.matmul(args); });
}

double Limits::copySeconds(uint64_t bytes) {
  if (bytes == 0)
    return 0;
  // Beyond that a copy is as fast as it gets, and room is scarce beside a large model.
  const uint64_t most = device.hostMemory() ? uint64_t{64} << 20 : uint64_t{1} << 29;
  // Sizes within an eighth share a measurement.
  const double exponent = std::ceil(std::log2(static_cast<double>(std::max<uint64_t>(bytes / 2, 4096))) * 8) / 8;
  const uint64_t copied = std::min(most, static_cast<uint64_t>(std::exp2(exponent)) / 256 * 256);
  auto [at, added] = copies.insert({copied, 0});
  if (added) {
    // Pairs of places in turn, so that caches hold no more of them than of a kernel's operands.
    makeRoom(2 * most);
    const uint64_t places = std::max<uint64_t>(1, 2 * most / (2 * copied));
    const auto elements = static_cast<int64_t>(copied / sizeof(float));
    auto tensor = [&](uint64_t place) { return vectorOf(room + place * copied, elements); };
    double best = timeOf(device, 9, [&](unsigned i) {
      const uint64_t pair = i % places;
      device.copy(tensor(2 * pair), tensor(2 * pair + 1));
    });
    if (!device.hostMemory()) // a device may be better at bytes than at tensors
      best = std::min(best, timeOf(device, 9, [&](unsigned i) {
        const uint64_t pair = i % places;
        device.copyBytes(room + (2 * pair + 1) * copied, room + 2 * pair * copied, copied);
      }));
    at->second = best;
  }
  return at->second * static_cast<double>(bytes) / static_cast<double>(2 * at->first);
}

} // namespace msamp::bench
