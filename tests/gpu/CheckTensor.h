// Tensors on two devices at once, and the comparison of what both made of them.
#ifndef MSAMP_TESTS_GPU_CHECKTENSOR_H
#define MSAMP_TESTS_GPU_CHECKTENSOR_H

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/device/Device.h"

namespace msamp::test {

// The reference (CPU) and the device that is checked.
struct Devices {
  runtime::Device &cpu;
  runtime::Device &gpu;
};

class CheckTensor {
public:
  CheckTensor() = default;
  // Row-major unless strides are given; `offset` elements lie before it.
  CheckTensor(Devices devices, runtime::Type type, std::vector<int64_t> shape, std::vector<int64_t> strides = {},
              int64_t offset = 0);
  ~CheckTensor();
  CheckTensor(CheckTensor &&other) noexcept;
  CheckTensor &operator=(CheckTensor &&other) noexcept;

  // Normal values, the same on both.
  CheckTensor &random(unsigned seed, float spread);
  // FP32: powers of two from 2^low to 2^high.
  CheckTensor &powers(unsigned seed, int low, int high);
  // I64: rows of a table, small numbers more often, as words are; a quarter of them counted from the end.
  CheckTensor &indices(unsigned seed, int64_t rows);
  // The same bits everywhere, so that what a step does not write is seen.
  CheckTensor &fill(uint8_t byte);

  const runtime::Tensor &host() const { return host_; }
  const runtime::Tensor &device() const { return device_; }
  // What lies on the checked device.
  std::vector<std::byte> download() const;
  const std::vector<std::byte> &memory() const { return memory_; }

private:
  void upload();
  runtime::Device *cpu_ = nullptr, *gpu_ = nullptr;
  std::vector<std::byte> memory_;
  void *data_ = nullptr;
  int64_t offset_ = 0;
  runtime::Tensor host_, device_;
};

// A part of a tensor: entries [first, first + count) of dimension `dim`.
runtime::Tensor part(const runtime::Tensor &tensor, unsigned dim, int64_t first, int64_t count);
// The same tensor in other memory.
runtime::Tensor at(const runtime::Tensor &tensor, const CheckTensor &owner, std::vector<std::byte> &memory);

// All values of a host tensor, in row-major order.
std::vector<float> valuesOf(runtime::Device &cpu, const runtime::Tensor &tensor);

struct Difference {
  double worst = 0;   // largest |x - y| / (relative |y| + absolute)
  double rms = 0;     // of x - y, over that of y
  double largest = 0; // |x - y| over the largest |y|
  bool finite = true;
};
Difference compare(const std::vector<float> &x, const std::vector<float> &y, double relative, double absolute);

// Largest relative difference of two values rounded to the type from values that hardly differ.
double unitOf(runtime::Type type);

// Counts and prints.
struct Report {
  unsigned checked = 0, wrong = 0;
  bool anyOrder = false; // gradients need not have the same bits again
  bool quick = false;    // no large shapes
  std::string only;      // part of the names of what is run
  bool wants(const std::string &name) const { return only.empty() || name.find(only) != std::string::npos; }
  void add(const std::string &name, bool good, const std::string &detail);
};

// Milliseconds of one call among many in a row, recorded where the device records.
double timeOf(runtime::Device &gpu, const std::string &key, const std::function<void()> &step);

void checkMatMul(Devices devices, Report &report);
void checkAttention(Devices devices, Report &report);
void checkScatter(Devices devices, Report &report);
void checkWindows(Devices devices, Report &report);

} // namespace msamp::test

#endif
