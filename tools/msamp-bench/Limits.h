// What the hardware can do: peaks by data sheet or measured, and copies of the sizes at hand, measured.
#ifndef MSAMP_TOOLS_MSAMP_BENCH_LIMITS_H
#define MSAMP_TOOLS_MSAMP_BENCH_LIMITS_H

#include "runtime/device/Device.h"

#include <map>
#include <optional>
#include <string>

namespace msamp::bench {

class Limits {
public:
  Limits(runtime::Device &device, std::optional<double> peak);
  ~Limits();
  Limits(const Limits &) = delete;
  Limits &operator=(const Limits &) = delete;

  // FLOP/s of dense products of that type.
  double peak(runtime::Type operands);
  const std::string &peakSource() const { return source; }

  // Seconds that a copy takes which reads and writes so many bytes together.
  double copySeconds(uint64_t bytes);

private:
  double measureProduct();
  void makeRoom(uint64_t bytes);

  runtime::Device &device;
  std::optional<double> given, measured;
  std::string source;
  std::map<uint64_t, double> copies; // bytes copied -> seconds
  std::byte *room = nullptr;
  uint64_t roomBytes = 0;
};

} // namespace msamp::bench

#endif
