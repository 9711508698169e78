// Compares the FP8 conversions of generated kernels with the definition in the unit tests for all 2^32 floats; takes
// minutes.
#include "tests/unit/codegen/Library.h"
#include "tests/unit/runtime/Fp8Reference.h"

#include <cstdio>
#include <cstring>

int main() {
  using namespace msamp::test;
  Fp8Kernels kernels;
  constexpr uint64_t count = Fp8Kernels::count;
  std::vector<float> values(count);
  std::vector<uint8_t> a(count), b(count);
  uint64_t wrong = 0;
  for (uint64_t start = 0; start < (uint64_t{1} << 32); start += count) {
    for (uint64_t i = 0; i < count; ++i) {
      uint32_t bits = static_cast<uint32_t>(start + i);
      std::memcpy(&values[i], &bits, 4);
    }
    kernels.encode(values.data(), a.data(), b.data());
    for (uint64_t i = 0; i < count; ++i) {
      bool good = a[i] == e4m3().encode(values[i]) && b[i] == e5m2().encode(values[i]);
      if (!good && wrong++ < 10)
        std::printf("bits %08llx become %02x and %02x\n", static_cast<unsigned long long>(start + i), a[i], b[i]);
    }
    if (start % (uint64_t{1} << 28) == 0)
      std::fprintf(stderr, "%3.0f %%\n", 100.0 * static_cast<double>(start) / 4294967296.0);
  }
  std::printf("2^32 floats to E4M3 and E5M2, %llu wrong\n", static_cast<unsigned long long>(wrong));
  return wrong != 0;
}
