// Arrays on the host: random contents that suit what they are for, and comparison of what two programs made of them.
#ifndef MSAMP_TESTS_GPU_VALUES_H
#define MSAMP_TESTS_GPU_VALUES_H

#include "runtime/core/Types.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace msamp::gputest {

using runtime::Type;

// Runs body(begin, end) on parts of [0, count) on all processors.
void inParallel(int64_t count, const std::function<void(int64_t, int64_t)> &body);

enum class Contents {
  Normal,     // N(0, 1) times `size`
  Positive,   // in [0.5, 1.5) times `size`
  PowerOfTwo, // 2^-2 .. 2^2
  Indices,    // in [0, size)
};
void fillRandom(Type type, void *data, int64_t count, Contents contents, double size, uint64_t seed);

float decode(Type type, const void *data, int64_t index);
void encode(Type type, void *data, int64_t index, float value);

// How two arrays of one type differ.
struct Difference {
  int64_t count = 0;
  int64_t codes = 0;   // elements whose bits differ
  int64_t far = 0;     // of FP8 and integers: by more than one code, or at all
  int64_t special = 0; // NaN or infinity on one side only
  double norm = 0;     // ||a - b|| / ||b||
  double most = 0;     // max |a - b| / (|b| + rms of b / 16)

  void add(const Difference &other);
  // Within what rounding in another order explains.
  // `rounded`: values were rounded to BF16 before, where one side may fall on the other neighbour.
  bool isSmall(Type type, bool rounded = false) const;
};
Difference compare(Type type, const void *actual, const void *expected, int64_t count);

// "e4m3 3 of 4096 codes by one" or "bf16 norm 1.2e-05 max 3.9e-03".
std::string describe(Type type, const Difference &difference);

} // namespace msamp::gputest

#endif
