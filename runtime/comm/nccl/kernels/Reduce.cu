// Reductions of what all ranks sent, in the order of ranks, and the marks by which the host sees how far collectives
// are.
#include <cstdint>

// What is not a number on one rank is none on all.
extern "C" __global__ void msampRanksMax(const float *all, float *out, int64_t count, unsigned ranks) {
  const int64_t i = blockIdx.x * 256l + threadIdx.x;
  if (i >= count)
    return;
  float largest = all[i];
  for (unsigned r = 1; r < ranks; ++r) {
    const float other = all[r * count + i];
    largest = isnan(largest) || largest > other ? largest : other;
  }
  out[i] = largest;
}

extern "C" __global__ void msampRanksSum(const double *all, double *out, int64_t count, unsigned ranks) {
  const int64_t i = blockIdx.x * 256l + threadIdx.x;
  if (i >= count)
    return;
  double sum = all[i];
  for (unsigned r = 1; r < ranks; ++r)
    sum += all[r * count + i];
  out[i] = sum;
}

// One thread; `counter` is host memory.
extern "C" __global__ void msampMark(volatile unsigned *counter) {
  *counter = *counter + 1;
  __threadfence_system();
}
