// Attention for what cuDNN does not take: FP32, odd widths, any strides. A warp computes one row; sums are in FP32 in a
// fixed order.
#include "runtime/device/cuda/kernels/AttentionArgs.h"
#include "runtime/device/cuda/kernels/Values.cuh"

using namespace msamp::runtime;
using namespace msamp::runtime::cuda;

namespace {

constexpr unsigned all = 0xffffffffu;

__device__ float warpSum(float x) {
  for (int offset = 16; offset > 0; offset /= 2)
    x += __shfl_xor_sync(all, x, offset);
  return x;
}
__device__ float warpMax(float x) {
  for (int offset = 16; offset > 0; offset /= 2)
    x = fmaxf(x, __shfl_xor_sync(all, x, offset));
  return x;
}

// Where a row of a tensor [B, X, H, D] begins, in elements.
__device__ int64_t offsetOf(const HeadsView &view, int64_t batch, int64_t x, int64_t head) {
  return batch * view.strides[0] + x * view.strides[1] + head * view.strides[2];
}

struct Row {
  const void *data;
  Type type;
  int64_t offset, stride;
  __device__ Row(const HeadsView &view, int64_t batch, int64_t x, int64_t head)
      : data(view.data), type(view.type), offset(offsetOf(view, batch, x, head)), stride(view.strides[3]) {}
  __device__ float operator[](int64_t i) const { return loadValue(data, type, offset + i * stride); }
};

__device__ void copyRow(const Row &row, float *to, int64_t count, int lane) {
  for (int64_t i = lane; i < count; i += 32)
    to[i] = row[i];
}
__device__ void clear(float *to, int64_t count, int lane) {
  for (int64_t i = lane; i < count; i += 32)
    to[i] = 0;
}
__device__ float dot(const float *x, const Row &y, int64_t count) {
  float sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += x[i] * y[i];
  return sum;
}
__device__ void writeRow(const HeadsView &view, int64_t batch, int64_t x, int64_t head, const float *from, float factor,
                         int64_t count, int lane) {
  const int64_t offset = offsetOf(view, batch, x, head);
  for (int64_t i = lane; i < count; i += 32)
    storeValue(view.data, view.type, offset + i * view.strides[3], from[i] * factor);
}

// sum = factor * sum + the tensor's rows x to x + rows - 1, each times its weight.
__device__ void addRows(float *sum, float factor, const float *weights, const HeadsView &view, int64_t batch, int64_t x,
                        int64_t head, int64_t rows, int64_t count, int lane) {
  for (int64_t i = lane; i < count; i += 32) {
    float value = sum[i] * factor;
    for (int64_t r = 0; r < rows; ++r)
      value += weights[r] * Row(view, batch, x + r, head)[i];
    sum[i] = value;
  }
}

__device__ float biasAt(const AttentionKernelArgs &a, int64_t batch, int64_t head, int64_t t, int64_t j) {
  if (!a.bias.data)
    return 0;
  const int64_t *s = a.bias.strides;
  return loadValue(a.bias.data, a.bias.type, batch * s[0] + head * s[1] + t * s[2] + j * s[3]);
}
__device__ float &lseAt(const AttentionKernelArgs &a, int64_t batch, int64_t head, int64_t t) {
  return a.lse[batch * a.lseStrides[0] + head * a.lseStrides[1] + t * a.lseStrides[2]];
}
// Keys that query t may look at; the last query sees all.
__device__ int64_t visibleKeys(const AttentionKernelArgs &a, int64_t t) {
  if (!a.causal)
    return a.keys;
  const int64_t visible = t + a.keys - a.queries + 1;
  return visible < 0 ? 0 : visible < a.keys ? visible : a.keys;
}

// This warp's row of [B, H, T] (or [B, G, S]) and its part of the block's shared memory.
struct Task {
  int64_t batch, head, row;
  int lane;
  float *memory;
  bool any;
  __device__ Task(int64_t batches, int64_t heads, int64_t rows, int64_t floats, float *shared) {
    const int64_t index = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
    any = index < batches * heads * rows;
    row = index % rows;
    head = index / rows % heads;
    batch = index / rows / heads;
    lane = static_cast<int>(threadIdx.x % 32);
    memory = shared + threadIdx.x / 32 * floats;
  }
};

} // namespace

// Shared memory a warp: width + valueWidth + 32 floats.
extern "C" __global__ void msampAttention(const __grid_constant__ AttentionKernelArgs a) {
  extern __shared__ float shared[];
  const Task w(a.batches, a.heads, a.queries, a.width + a.valueWidth + 32, shared);
  if (!w.any)
    return;
  float *q = w.memory, *out = q + a.width, *p = out + a.valueWidth;
  const int64_t group = w.head / (a.heads / a.groups), visible = visibleKeys(a, w.row);
  copyRow(Row(a.q, w.batch, w.row, w.head), q, a.width, w.lane);
  clear(out, a.valueWidth, w.lane);
  __syncwarp();
  float top = -INFINITY, sum = 0;
  for (int64_t j0 = 0; j0 < visible; j0 += 32) {
    const int64_t j = j0 + w.lane, count = visible - j0 < 32 ? visible - j0 : 32;
    float s = -INFINITY;
    if (j < visible)
      s = dot(q, Row(a.k, w.batch, j, group), a.width) * a.scale + biasAt(a, w.batch, w.head, w.row, j);
    const float newTop = fmaxf(top, warpMax(s));
    const float base = newTop == -INFINITY ? 0 : newTop, factor = expf(top - base);
    p[w.lane] = expf(s - base);
    sum = sum * factor + warpSum(p[w.lane]);
    top = newTop;
    __syncwarp();
    addRows(out, factor, p, a.v, w.batch, j0, group, count, a.valueWidth, w.lane);
    __syncwarp();
  }
  // A row that sees nothing gives zeros.
  writeRow(a.o, w.batch, w.row, w.head, out, sum == 0 ? 0.0f : 1 / sum, a.valueWidth, w.lane);
  if (w.lane == 0)
    lseAt(a, w.batch, w.head, w.row) = sum == 0 ? -INFINITY : top + logf(sum);
}

// dQ and the sums of dO o. Shared memory a warp: 2 width + valueWidth + 32 floats.
extern "C" __global__ void msampAttentionGradQuery(const __grid_constant__ AttentionKernelArgs a) {
  extern __shared__ float shared[];
  const Task w(a.batches, a.heads, a.queries, 2 * a.width + a.valueWidth + 32, shared);
  if (!w.any)
    return;
  float *q = w.memory, *dQ = q + a.width, *dO = dQ + a.width, *ds = dO + a.valueWidth;
  const int64_t group = w.head / (a.heads / a.groups);
  const float lse = lseAt(a, w.batch, w.head, w.row);
  const int64_t visible = lse == -INFINITY ? 0 : visibleKeys(a, w.row);
  copyRow(Row(a.q, w.batch, w.row, w.head), q, a.width, w.lane);
  copyRow(Row(a.dO, w.batch, w.row, w.head), dO, a.valueWidth, w.lane);
  clear(dQ, a.width, w.lane);
  const Row o(a.o, w.batch, w.row, w.head);
  float delta = 0;
  for (int64_t e = w.lane; e < a.valueWidth; e += 32)
    delta += dO[e] * o[e];
  delta = warpSum(delta);
  if (w.lane == 0)
    a.delta[(w.batch * a.heads + w.head) * a.queries + w.row] = delta;
  __syncwarp();
  for (int64_t j0 = 0; j0 < visible; j0 += 32) {
    const int64_t j = j0 + w.lane, count = visible - j0 < 32 ? visible - j0 : 32;
    float value = 0;
    if (j < visible) {
      const float s = dot(q, Row(a.k, w.batch, j, group), a.width) * a.scale + biasAt(a, w.batch, w.head, w.row, j);
      value = expf(s - lse) * (dot(dO, Row(a.v, w.batch, j, group), a.valueWidth) - delta);
    }
    ds[w.lane] = value;
    __syncwarp();
    addRows(dQ, 1, ds, a.k, w.batch, j0, group, count, a.width, w.lane);
    __syncwarp();
  }
  writeRow(a.dQ, w.batch, w.row, w.head, dQ, a.scale, a.width, w.lane);
}

// dK and dV of one key over the queries of all heads of its group. Shared memory a warp: 2 width + 2 valueWidth + 64
// floats.
extern "C" __global__ void msampAttentionGradKey(const __grid_constant__ AttentionKernelArgs a) {
  extern __shared__ float shared[];
  const Task w(a.batches, a.groups, a.keys, 2 * a.width + 2 * a.valueWidth + 64, shared);
  if (!w.any)
    return;
  float *k = w.memory, *v = k + a.width, *dK = v + a.valueWidth, *dV = dK + a.width, *p = dV + a.valueWidth,
        *ds = p + 32;
  copyRow(Row(a.k, w.batch, w.row, w.head), k, a.width, w.lane);
  copyRow(Row(a.v, w.batch, w.row, w.head), v, a.valueWidth, w.lane);
  clear(dK, a.width, w.lane);
  clear(dV, a.valueWidth, w.lane);
  __syncwarp();
  const int64_t perGroup = a.heads / a.groups;
  // The first query that sees this key.
  const int64_t first = a.causal ? max(static_cast<int64_t>(0), w.row - a.keys + a.queries) : 0;
  for (int64_t head = w.head * perGroup; head < (w.head + 1) * perGroup; ++head)
    for (int64_t t0 = first; t0 < a.queries; t0 += 32) {
      const int64_t t = t0 + w.lane, count = a.queries - t0 < 32 ? a.queries - t0 : 32;
      float probability = 0, gradient = 0;
      if (t < a.queries) {
        const float lse = lseAt(a, w.batch, head, t);
        const float s = dot(k, Row(a.q, w.batch, t, head), a.width) * a.scale + biasAt(a, w.batch, head, t, w.row);
        probability = lse == -INFINITY ? 0 : expf(s - lse);
        gradient = probability * (dot(v, Row(a.dO, w.batch, t, head), a.valueWidth) -
                                  a.delta[(w.batch * a.heads + head) * a.queries + t]);
      }
      p[w.lane] = probability;
      ds[w.lane] = gradient;
      __syncwarp();
      addRows(dK, 1, ds, a.q, w.batch, t0, head, count, a.width, w.lane);
      addRows(dV, 1, p, a.dO, w.batch, t0, head, count, a.valueWidth, w.lane);
      __syncwarp();
    }
  writeRow(a.dK, w.batch, w.row, w.head, dK, a.scale, a.width, w.lane);
  writeRow(a.dV, w.batch, w.row, w.head, dV, 1, a.valueWidth, w.lane);
}
