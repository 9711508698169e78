#include "tests/gpu/Values.h"

#include "runtime/core/Convert.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

namespace msamp::gputest {
using namespace runtime;

void inParallel(int64_t count, const std::function<void(int64_t, int64_t)> &body) {
  const auto workers = static_cast<int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < workers; ++i)
    if (int64_t begin = count * i / workers, end = count * (i + 1) / workers; begin < end)
      threads.emplace_back(body, begin, end);
  for (std::thread &thread : threads)
    thread.join();
}

static uint64_t mixed(uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

float decode(Type type, const void *data, int64_t i) {
  float value;
  decodeFloats(type, static_cast<const std::byte *>(data) + static_cast<size_t>(i) * sizeOf(type), &value, 1);
  return value;
}

void encode(Type type, void *data, int64_t i, float value) {
  encodeFloats(type, &value, static_cast<std::byte *>(data) + static_cast<size_t>(i) * sizeOf(type), 1);
}

// Values come out of a table of 65,536: hashing an index is cheaper than drawing from a distribution.
static std::array<float, 65536> tableOf(Contents contents, double size) {
  std::array<float, 65536> table;
  for (uint64_t i = 0; i < table.size(); ++i) {
    double value = 0;
    const double uniform = (static_cast<double>(mixed(2 * i) >> 11) + 0.5) * 0x1p-53;
    if (contents == Contents::Normal) {
      const double other = static_cast<double>(mixed(2 * i + 1) >> 11) * 0x1p-53;
      value = std::sqrt(-2 * std::log(uniform)) * std::cos(2 * M_PI * other) * size;
    } else if (contents == Contents::Positive) {
      value = (0.5 + uniform) * size;
    } else {
      value = std::ldexp(1.0, static_cast<int>(uniform * 5) - 2);
    }
    table[i] = static_cast<float>(value);
  }
  return table;
}

void fillRandom(Type type, void *data, int64_t count, Contents contents, double size, uint64_t seed) {
  const auto limit = static_cast<uint64_t>(std::max(1.0, size));
  std::array<float, 65536> table{};
  if (isFloat(type))
    table = tableOf(contents, size);
  inParallel(count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t random = mixed(static_cast<uint64_t>(i) ^ (seed << 40));
      if (isFloat(type)) {
        encode(type, data, i, table[random & 0xffff]);
        continue;
      }
      const uint64_t value = random % (type == Type::Bool ? 2 : limit);
      if (type == Type::I64)
        static_cast<int64_t *>(data)[i] = static_cast<int64_t>(value);
      else if (type == Type::I32)
        static_cast<int32_t *>(data)[i] = static_cast<int32_t>(value);
      else
        static_cast<uint8_t *>(data)[i] = static_cast<uint8_t>(value);
    }
  });
}

void Difference::add(const Difference &other) {
  count += other.count, codes += other.codes, far += other.far, special += other.special;
  norm = std::max(norm, other.norm), most = std::max(most, other.most);
}

static uint64_t bitsAt(Type type, const void *data, int64_t i) {
  uint64_t bits = 0;
  const size_t size = sizeOf(type);
  std::memcpy(&bits, static_cast<const char *>(data) + static_cast<size_t>(i) * size, size);
  return bits;
}

// FP8 codes as integers in the order of their values; the two zeros are one.
static int orderOf(uint64_t code) {
  const int magnitude = static_cast<int>(code & 0x7f);
  return code & 0x80 ? -magnitude : magnitude;
}

Difference compare(Type type, const void *actual, const void *expected, int64_t count) {
  Difference total;
  total.count = count;
  double squares = 0, error = 0;
  std::mutex mutex;
  const bool number = isFloat(type);
  if (number)
    inParallel(count, [&](int64_t begin, int64_t end) {
      double sum = 0;
      for (int64_t i = begin; i < end; ++i)
        if (double b = decode(type, expected, i); std::isfinite(b))
          sum += b * b;
      std::lock_guard lock(mutex);
      squares += sum;
    });
  const double small = count > 0 ? std::sqrt(squares / static_cast<double>(count)) / 16 + 1e-30 : 1;
  inParallel(count, [&](int64_t begin, int64_t end) {
    Difference d;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t a = bitsAt(type, actual, i), b = bitsAt(type, expected, i);
      if (a == b)
        continue;
      ++d.codes;
      if (!number) {
        ++d.far;
        continue;
      }
      const double x = decode(type, actual, i), y = decode(type, expected, i);
      if (!std::isfinite(x) || !std::isfinite(y)) {
        const bool same = (std::isnan(x) && std::isnan(y)) || x == y;
        d.special += !same;
        d.codes -= same;
        continue;
      }
      if (isFp8(type))
        d.far += std::abs(orderOf(a) - orderOf(b)) > 1;
      sum += (x - y) * (x - y);
      d.most = std::max(d.most, std::fabs(x - y) / (std::fabs(y) + small));
    }
    std::lock_guard lock(mutex);
    d.count = 0;
    total.add(d);
    error += sum;
  });
  total.norm = squares > 0 ? std::sqrt(error / squares) : std::sqrt(error);
  return total;
}

bool Difference::isSmall(Type type, bool rounded) const {
  if (special > 0 || far > 0)
    return false;
  switch (type) {
  case Type::F32:
    return norm < 2e-5 && most < (rounded ? 2.5e-2 : 1e-3);
  case Type::BF16:
    return norm < 1e-3 && most < 2.5e-2;
  case Type::F16:
    return norm < 2e-4 && most < 4e-3;
  case Type::E4M3:
  case Type::E5M2:
    return static_cast<double>(codes) <= 3 + 2e-3 * static_cast<double>(count);
  default:
    return true;
  }
}

std::string describe(Type type, const Difference &d) {
  std::string text(nameOf(type));
  if (d.special > 0)
    text += fmt::format(" {} NaN or infinite on one side", d.special);
  if (d.codes == 0 && d.special == 0)
    return text + " equal";
  if (isFp8(type) || !isFloat(type))
    return text + fmt::format(" {} of {} codes differ, {} by more than one", d.codes, d.count, d.far);
  return text + fmt::format(" norm {:.1e} max {:.1e}", d.norm, d.most);
}

} // namespace msamp::gputest
