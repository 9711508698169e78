// Tensors with memory of their own, and their values as doubles.
#ifndef MSAMP_TESTS_TESTTENSOR_H
#define MSAMP_TESTS_TESTTENSOR_H

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/device/Device.h"
#include "tests/unit/runtime/Fp8Reference.h"

namespace msamp::test {

class TestTensor {
public:
  // Row-major unless strides are given.
  TestTensor(runtime::Type type, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    t_.type = type;
    t_.rank = static_cast<unsigned>(shape.size());
    int64_t stride = 1, extent = 1;
    for (unsigned d = t_.rank; d-- > 0;) {
      t_.shape[d] = shape[d];
      t_.strides[d] = strides.empty() ? stride : strides[d];
      stride *= shape[d];
      extent += (shape[d] - 1) * t_.strides[d];
    }
    memory_.resize(static_cast<size_t>(std::max<int64_t>(0, extent)) * sizeOf(type) + 64);
    t_.data = memory_.data();
  }
  const runtime::Tensor &tensor() const { return t_; }
  operator const runtime::Tensor &() const { return t_; }

  int64_t count() const { return t_.elements(); }
  // Position in memory of the i-th element in row-major order.
  int64_t position(int64_t i) const {
    int64_t p = 0;
    for (unsigned d = t_.rank; d-- > 0;) {
      p += i % t_.shape[d] * t_.strides[d];
      i /= t_.shape[d];
    }
    return p;
  }
  double get(int64_t i) const {
    const int64_t p = position(i);
    switch (t_.type) {
    case runtime::Type::F32: return reinterpret_cast<const float *>(t_.data)[p];
    case runtime::Type::BF16: return bf16().decode(reinterpret_cast<const uint16_t *>(t_.data)[p]);
    case runtime::Type::F16: return f16().decode(reinterpret_cast<const uint16_t *>(t_.data)[p]);
    case runtime::Type::E4M3: return e4m3().decode(reinterpret_cast<const uint8_t *>(t_.data)[p]);
    case runtime::Type::E5M2: return e5m2().decode(reinterpret_cast<const uint8_t *>(t_.data)[p]);
    case runtime::Type::I64: return static_cast<double>(reinterpret_cast<const int64_t *>(t_.data)[p]);
    default: return 0;
    }
  }
  void set(int64_t i, double value) {
    const int64_t p = position(i);
    switch (t_.type) {
    case runtime::Type::F32: reinterpret_cast<float *>(t_.data)[p] = static_cast<float>(value); break;
    case runtime::Type::BF16: reinterpret_cast<uint16_t *>(t_.data)[p] = static_cast<uint16_t>(bf16().encode(value)); break;
    case runtime::Type::F16: reinterpret_cast<uint16_t *>(t_.data)[p] = static_cast<uint16_t>(f16().encode(value)); break;
    case runtime::Type::E4M3: reinterpret_cast<uint8_t *>(t_.data)[p] = static_cast<uint8_t>(e4m3().encode(value)); break;
    case runtime::Type::E5M2: reinterpret_cast<uint8_t *>(t_.data)[p] = static_cast<uint8_t>(e5m2().encode(value)); break;
    case runtime::Type::I64: reinterpret_cast<int64_t *>(t_.data)[p] = static_cast<int64_t>(value); break;
    default: break;
    }
  }
  TestTensor &random(unsigned seed, double spread = 1.0) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(0, spread);
    for (int64_t i = 0; i < count(); ++i)
      set(i, normal(generator));
    return *this;
  }

private:
  runtime::Tensor t_;
  std::vector<std::byte> memory_;
};

} // namespace msamp::test

#endif
