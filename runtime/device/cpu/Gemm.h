// The FP32 matrix product that tiles are made of, on the calling thread.
#ifndef MSAMP_RUNTIME_DEVICE_CPU_GEMM_H
#define MSAMP_RUNTIME_DEVICE_CPU_GEMM_H

#include <cstdint>

namespace msamp::runtime::cpu {

// c [m, n] = op(a) [m, k] op(b) [k, n] + beta c, all row-major; a transposed operand is stored [k, m] or [n, k].
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
    int64_t ldb, float beta, float *c, int64_t ldc);

} // namespace msamp::runtime::cpu

#endif
