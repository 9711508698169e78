// Kernels of the hand-made plans, in plain C++ with the interface of compiled ones. The update is AdamW from Loshchilov and Hutter,
// "Decoupled Weight Decay Regularization", 2019, algorithm 2, and SGD with momentum, in double precision, with the formats' definition
// for conversions: a reference for the compiled kernels as well.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tests/unit/runtime/UpdateReference.h"

using namespace msamp::test;

// The rest is hidden: each plan has its own copy of this library, which must not share statics with the others.
#pragma GCC visibility push(default)
extern "C" {

// args: y, target bias b (f32), loss, dy, db. One chunk. y is f32 [n, c].
void test_loss(void *const *args, int64_t, int64_t) {
  constexpr int64_t batch = 8, columns = 40;
  const float *y = static_cast<const float *>(args[0]), *b = static_cast<const float *>(args[1]);
  float *loss = static_cast<float *>(args[2]), *dy = static_cast<float *>(args[3]), *db = static_cast<float *>(args[4]);
  double sum = 0;
  std::fill_n(db, columns, 0.0f);
  for (int64_t i = 0; i < batch; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const float error = y[i * columns + j] + b[j] - 1.0f;
      sum += static_cast<double>(error) * error / 2;
      dy[i * columns + j] = error / static_cast<float>(batch * columns);
      db[j] += dy[i * columns + j];
    }
  *loss = static_cast<float>(sum / (batch * columns));
}

// args: stored weight, its scale, f32 weight; 48 chunks of a row.
void test_widen_f16(void *const *args, int64_t begin, int64_t end) {
  for (int64_t i = begin * 40; i < end * 40; ++i)
    static_cast<float *>(args[2])[i] = static_cast<float>(
        f16().decode(static_cast<const uint16_t *>(args[0])[i]) / static_cast<double>(*static_cast<const float *>(args[1])));
}
void test_widen_e4m3(void *const *args, int64_t begin, int64_t end) {
  for (int64_t i = begin * 40; i < end * 40; ++i)
    static_cast<float *>(args[2])[i] = static_cast<float>(
        e4m3().decode(static_cast<const uint8_t *>(args[0])[i]) / static_cast<double>(*static_cast<const float *>(args[1])));
}

// args: f32 gradient, amax out; partial maxima in the workspace, one a chunk.
void test_amax(void *const *args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    float largest = 0;
    for (int64_t j = 0; j < 40; ++j) {
      const float a = std::fabs(static_cast<const float *>(args[0])[row * 40 + j]);
      largest = std::isnan(a) ? a : std::max(largest, a);
    }
    static_cast<float *>(args[2])[row] = largest;
  }
}
void test_amax_finish(void *const *args) {
  float largest = 0;
  for (int64_t row = 0; row < 48; ++row) {
    const float a = static_cast<const float *>(args[2])[row];
    largest = std::isnan(a) || std::isnan(largest) ? NAN : std::max(largest, a);
  }
  *static_cast<float *>(args[1]) = largest;
}

// args: f32 gradient, site scale, E4M3 gradient, scale out.
void test_quantise(void *const *args, int64_t begin, int64_t end) {
  const float scale = *static_cast<const float *>(args[1]);
  for (int64_t i = begin * 40; i < end * 40; ++i)
    static_cast<uint8_t *>(args[2])[i] =
        static_cast<uint8_t>(e4m3().encode(static_cast<double>(static_cast<const float *>(args[0])[i]) * scale));
  if (begin == 0)
    *static_cast<float *>(args[3]) = scale;
}

void test_narrow_bf16(void *const *args, int64_t begin, int64_t end) {
  for (int64_t i = begin * 40; i < end * 40; ++i)
    static_cast<uint16_t *>(args[1])[i] = static_cast<uint16_t>(bf16().encode(static_cast<const float *>(args[0])[i]));
}

#define MSAMP_UPDATE(NAME, ...)                                                                                        \
  void NAME(void *const *args, int64_t begin, int64_t end) {                                                           \
    static const UpdateReference reference{__VA_ARGS__};                                                               \
    reference.run(args, begin, end);                                                                                   \
  }
MSAMP_UPDATE(test_update_fp32, Stored::F32, Stored::None, Stored::F32, Stored::F32, Stored::F32, false)
MSAMP_UPDATE(test_update_sgd, Stored::F32, Stored::None, Stored::F32, Stored::F32, Stored::None, true)
MSAMP_UPDATE(test_update_bf16, Stored::BF16, Stored::F32, Stored::BF16, Stored::F32, Stored::F32, false)
MSAMP_UPDATE(test_update_o1, Stored::F16, Stored::None, Stored::E4M3, Stored::F32, Stored::F32, false)
MSAMP_UPDATE(test_update_o2, Stored::F16, Stored::None, Stored::E4M3, Stored::E4M3, Stored::F16, false)
MSAMP_UPDATE(test_update_bf16_f32, Stored::BF16, Stored::F32, Stored::F32, Stored::F32, Stored::F32, false)
MSAMP_UPDATE(test_update_o2_f32, Stored::F16, Stored::None, Stored::F32, Stored::E4M3, Stored::F16, false)
MSAMP_UPDATE(test_update_o3, Stored::E4M3, Stored::F16, Stored::E4M3, Stored::E4M3, Stored::F16, false)
}
#pragma GCC visibility pop
