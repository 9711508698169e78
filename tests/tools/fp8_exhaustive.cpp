// Compares the CPU device's FP8 conversions with the definition in the unit tests for all 2^32 floats and all 256 codes.
// usage: fp8_exhaustive [e4m3|e5m2]
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "runtime/core/Error.h"
#include "runtime/core/Fp8.h"
#include "runtime/device/Device.h"
#include "tests/unit/runtime/Fp8Reference.h"

using namespace msamp::runtime;

static uint64_t compare(Device &device, Type type, const msamp::test::Format &format) {
  std::atomic<uint64_t> wrong{0};
  constexpr uint64_t run = 1 << 16;
  device.parallel((int64_t{1} << 32) / run, [&](int64_t part) {
    std::vector<float> values(run);
    std::vector<uint8_t> codes(run);
    for (uint64_t i = 0; i < run; ++i)
      values[i] = floatOf(static_cast<uint32_t>(static_cast<uint64_t>(part) * run + i));
    device.encode(type, values.data(), codes.data(), run);
    for (uint64_t i = 0; i < run; ++i)
      if (codes[i] != format.encode(values[i]) && wrong++ < 10)
        std::printf("%s: bits %08x become %02x, not %02x\n", nameOf(type).data(), bitsOf(values[i]), codes[i],
            format.encode(values[i]));
  });
  for (unsigned code = 0; code < 256; ++code) {
    float value;
    const auto byte = static_cast<uint8_t>(code);
    device.decode(type, &byte, &value, 1);
    const double expected = format.decode(code);
    if (std::isnan(expected) ? !std::isnan(value) : bitsOf(value) != bitsOf(static_cast<float>(expected))) {
      ++wrong;
      std::printf("%s: code %02x is read as %g, not %g\n", nameOf(type).data(), code, value, expected);
    }
  }
  std::printf("%s: 2^32 floats and 256 codes, %llu wrong\n", nameOf(type).data(), static_cast<unsigned long long>(wrong.load()));
  return wrong;
}

int main(int argc, char **argv) {
  try {
    auto device = makeDevice({});
    uint64_t wrong = 0;
    if (argc < 2 || std::strcmp(argv[1], "e4m3") == 0)
      wrong += compare(*device, Type::E4M3, msamp::test::e4m3());
    if (argc < 2 || std::strcmp(argv[1], "e5m2") == 0)
      wrong += compare(*device, Type::E5M2, msamp::test::e5m2());
    return wrong == 0 ? 0 : 1;
  } catch (const Error &error) {
    std::fprintf(stderr, "fp8_exhaustive: %s\n", error.what());
    return error.exitCode();
  }
}
