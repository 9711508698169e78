#include "tests/gpu/CheckTensor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include <fmt/format.h>

namespace msamp::test {

using namespace runtime;

namespace {

// Values drawn once; a prime number of them, so that rows of no matrix are alike.
const std::vector<float> &pattern() {
  static const std::vector<float> values = [] {
    std::vector<float> drawn(1048573);
    std::minstd_rand generator(1);
    std::normal_distribution<float> normal;
    for (float &value : drawn)
      value = normal(generator);
    return drawn;
  }();
  return values;
}

} // namespace

CheckTensor::CheckTensor(Devices devices, Type type, std::vector<int64_t> shape, std::vector<int64_t> strides,
                         int64_t offset)
    : cpu_(&devices.cpu), gpu_(&devices.gpu), offset_(offset) {
  Tensor &t = host_;
  t.type = type;
  t.rank = static_cast<unsigned>(shape.size());
  int64_t stride = 1, extent = 1;
  for (unsigned d = t.rank; d-- > 0;) {
    t.shape[d] = shape[d];
    t.strides[d] = strides.empty() ? stride : strides[d];
    stride *= std::max<int64_t>(shape[d], 1);
    extent += (std::max<int64_t>(shape[d], 1) - 1) * t.strides[d];
  }
  memory_.resize(static_cast<size_t>(offset + extent) * sizeOf(type));
  data_ = gpu_->allocate(memory_.size());
  t.data = memory_.data() + static_cast<size_t>(offset) * sizeOf(type);
  device_ = t;
  device_.data = static_cast<std::byte *>(data_) + static_cast<size_t>(offset) * sizeOf(type);
}

CheckTensor::~CheckTensor() {
  if (data_)
    gpu_->release(data_, memory_.size());
}

CheckTensor::CheckTensor(CheckTensor &&other) noexcept {
  *this = std::move(other);
}

CheckTensor &CheckTensor::operator=(CheckTensor &&other) noexcept {
  std::swap(cpu_, other.cpu_);
  std::swap(gpu_, other.gpu_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(offset_, other.offset_);
  std::swap(host_, other.host_);
  std::swap(device_, other.device_);
  return *this;
}

void CheckTensor::upload() {
  gpu_->upload(data_, memory_.data(), memory_.size());
}

CheckTensor &CheckTensor::random(unsigned seed, float spread) {
  std::vector<float> scaled = pattern();
  std::rotate(scaled.begin(), scaled.begin() + seed * 7919 % static_cast<long>(scaled.size()), scaled.end());
  for (float &value : scaled)
    value *= spread;
  const size_t size = sizeOf(host_.type), count = memory_.size() / size;
  for (size_t i = 0; i < count; i += scaled.size()) {
    const size_t run = std::min(scaled.size(), count - i);
    cpu_->encode(host_.type, scaled.data(), memory_.data() + i * size, static_cast<int64_t>(run));
  }
  upload();
  return *this;
}

CheckTensor &CheckTensor::powers(unsigned seed, int low, int high) {
  std::minstd_rand generator(seed);
  auto *values = reinterpret_cast<float *>(memory_.data());
  for (size_t i = 0; i < memory_.size() / sizeof(float); ++i)
    values[i] = std::ldexp(1.0f, low + static_cast<int>(generator() % static_cast<unsigned>(high - low + 1)));
  upload();
  return *this;
}

CheckTensor &CheckTensor::indices(unsigned seed, int64_t rows) {
  std::minstd_rand generator(seed);
  auto *values = reinterpret_cast<int64_t *>(memory_.data());
  for (size_t i = 0; i < memory_.size() / sizeof(int64_t); ++i) {
    const double uniform = static_cast<double>(generator()) / static_cast<double>(std::minstd_rand::max());
    const auto row = static_cast<int64_t>(std::exp(uniform * std::log(static_cast<double>(rows) + 1)) - 1);
    values[i] = std::min(row, rows - 1) - (generator() % 4 == 0 ? rows : 0);
  }
  upload();
  return *this;
}

CheckTensor &CheckTensor::fill(uint8_t byte) {
  std::memset(memory_.data(), byte, memory_.size());
  upload();
  return *this;
}

std::vector<std::byte> CheckTensor::download() const {
  std::vector<std::byte> bytes(memory_.size());
  gpu_->download(bytes.data(), data_, bytes.size());
  return bytes;
}

Tensor part(const Tensor &tensor, unsigned dim, int64_t first, int64_t count) {
  Tensor t = tensor;
  t.shape[dim] = count;
  t.data += first * t.strides[dim] * static_cast<int64_t>(sizeOf(t.type));
  return t;
}

Tensor at(const Tensor &tensor, const CheckTensor &owner, std::vector<std::byte> &memory) {
  Tensor t = tensor;
  t.data = memory.data() + (tensor.data - owner.memory().data());
  return t;
}

std::vector<float> valuesOf(Device &cpu, const Tensor &t) {
  const int64_t count = t.elements();
  std::vector<float> values(static_cast<size_t>(count));
  const int64_t run = t.rank > 0 && t.strides[t.rank - 1] == 1 ? t.shape[t.rank - 1] : 1;
  for (int64_t i = 0; i < count; i += run) {
    int64_t position = 0, rest = i;
    for (unsigned d = t.rank; d-- > 0;) {
      position += rest % t.shape[d] * t.strides[d];
      rest /= t.shape[d];
    }
    cpu.decode(t.type, t.data + position * static_cast<int64_t>(sizeOf(t.type)), values.data() + i, run);
  }
  return values;
}

Difference compare(const std::vector<float> &x, const std::vector<float> &y, double relative, double absolute) {
  Difference d;
  double squares = 0, expected = 0, largest = 0, most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double a = x[i], b = y[i];
    if (a == b || (std::isnan(a) && std::isnan(b)))
      continue;
    if (!std::isfinite(a) || !std::isfinite(b)) {
      d.finite = false;
      continue;
    }
    const double difference = std::fabs(a - b);
    d.worst = std::max(d.worst, difference / (relative * std::fabs(b) + absolute));
    squares += difference * difference;
    most = std::max(most, difference);
  }
  for (float value : y)
    if (std::isfinite(value)) {
      expected += static_cast<double>(value) * value;
      largest = std::max(largest, std::fabs(static_cast<double>(value)));
    }
  d.rms = squares == 0 ? 0 : std::sqrt(squares / std::max(expected, 1e-300));
  d.largest = most == 0 ? 0 : most / std::max(largest, 1e-300);
  return d;
}

double unitOf(Type type) {
  switch (type) {
  case Type::BF16:
    return 0x1p-7;
  case Type::F16:
    return 0x1p-10;
  case Type::E4M3:
    return 0x1p-3;
  case Type::E5M2:
    return 0x1p-2;
  default:
    return 0x1p-22;
  }
}

void Report::add(const std::string &name, bool good, const std::string &detail) {
  ++checked;
  wrong += !good;
  fmt::print("{} {}: {}\n", good ? "ok   " : "WRONG", name, detail);
  std::fflush(stdout);
}

double timeOf(Device &gpu, const std::string &key, const std::function<void()> &step) {
  void *token = gpu.allocate(64);
  uint32_t word = 0;
  constexpr int calls = 10, rounds = 3;
  auto run = [&] {
    gpu.sequence(key, [&] {
      for (int i = 0; i < calls; ++i)
        step();
    });
    gpu.download(&word, token, sizeof word);
  };
  run();
  run();
  double best = 1e30;
  for (int r = 0; r < rounds; ++r) {
    const auto from = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - from;
    best = std::min(best, took.count() / calls);
  }
  gpu.release(token, 64);
  return best;
}

} // namespace msamp::test
