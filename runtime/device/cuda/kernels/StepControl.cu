// The control of a step: the functions of StepRules.h, an entry a thread; sums in a fixed order.
#include "runtime/device/cuda/kernels/ControlArgs.h"
#include "runtime/device/cuda/kernels/Values.cuh"

using namespace msamp::runtime;
using namespace msamp::runtime::cuda;

namespace {

// Sum over the threads of a block, the same tree every time; on thread 0.
template <unsigned threads> __device__ double blockSum(double value) {
  __shared__ double lanes[threads / 32];
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0)
    lanes[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned i = 1; i < threads / 32; ++i)
      value += lanes[i];
  return value;
}

// Sum of squares of sixteen neighbouring values.
__device__ float squaresOf(const uint4 &word, Type type) {
  const uint32_t words[4] = {word.x, word.y, word.z, word.w};
  float sum = 0;
  for (uint32_t w : words) {
    if (type == Type::F32) {
      const float value = __uint_as_float(w);
      sum = fmaf(value, value, sum);
    } else if (type == Type::BF16) {
      const float low = __uint_as_float(w << 16), high = __uint_as_float(w & 0xffff0000u);
      sum = fmaf(high, high, fmaf(low, low, sum));
    } else if (type == Type::F16) {
      const float2 two = __half22float2(*reinterpret_cast<const __half2 *>(&w));
      sum = fmaf(two.y, two.y, fmaf(two.x, two.x, sum));
    } else {
      for (int half = 0; half < 2; ++half) {
        const auto codes = static_cast<__nv_fp8x2_storage_t>(w >> (16 * half));
        const float2 two =
            __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(codes, type == Type::E4M3 ? __NV_E4M3 : __NV_E5M2)));
        sum = fmaf(two.y, two.y, fmaf(two.x, two.x, sum));
      }
    }
  }
  return sum;
}

// A tile is 8 accesses of 16 bytes a thread, all in flight. Blocks of 128 values of a parameter follow each other, so that most tiles
// have one scale, and need to know the owners of their ends only.
template <Type type> __device__ void squares(const SquaresArgs &args) {
  constexpr int64_t wordsOfBlock = blockSize * sizeOf(type) / 16;
  constexpr int accesses = 8;
  constexpr int64_t tile = int64_t{squaresThreads} * accesses;
  const auto *words = static_cast<const uint4 *>(args.data);
  const int64_t count = args.blocks * wordsOfBlock;
  auto squaredInverse = [](float scale) {
    const double inverse = static_cast<double>(__frcp_rn(scale));
    return inverse * inverse;
  };
  double sum = 0;
  for (int64_t start = blockIdx.x * tile; start < count; start += gridDim.x * tile) {
    uint4 word[accesses];
#pragma unroll
    for (int a = 0; a < accesses; ++a) {
      const int64_t i = start + a * squaresThreads + threadIdx.x;
      word[a] = i < count ? __ldcs(words + i) : uint4{0, 0, 0, 0};
    }
    const int64_t last = min(start + tile, count) - 1;
    const int32_t owner = args.owner[start / wordsOfBlock];
    if (!args.blockScale && owner == args.owner[last / wordsOfBlock]) {
      double squared = 0;
#pragma unroll
      for (int a = 0; a < accesses; ++a)
        squared += static_cast<double>(squaresOf(word[a], type));
      sum += squared * squaredInverse(args.parameterScale[owner]);
      continue;
    }
#pragma unroll
    for (int a = 0; a < accesses; ++a) {
      const int64_t block = min(start + a * squaresThreads + threadIdx.x, last) / wordsOfBlock;
      const float scale = args.blockScale ? args.blockScale[block] : args.parameterScale[args.owner[block]];
      sum += static_cast<double>(squaresOf(word[a], type)) * squaredInverse(scale);
    }
  }
  sum = blockSum<squaresThreads>(sum);
  if (threadIdx.x == 0)
    args.partials[blockIdx.x] = sum;
}

} // namespace

extern "C" __global__ void msampNoteLoss(StepTables tables, const void *loss, Type type, LossUse use) {
  noteLoss(*tables.state, loadValue(loss, type, 0), use);
}

extern "C" __global__ void __launch_bounds__(squaresThreads) msampSquares(const __grid_constant__ SquaresArgs args) {
  switch (args.type) {
  case Type::F32: return squares<Type::F32>(args);
  case Type::BF16: return squares<Type::BF16>(args);
  case Type::F16: return squares<Type::F16>(args);
  case Type::E4M3: return squares<Type::E4M3>(args);
  case Type::E5M2: return squares<Type::E5M2>(args);
  default: return;
  }
}

// One block of 1024 threads.
extern "C" __global__ void __launch_bounds__(1024) msampSumSquares(StepTables tables, const double *partials, uint32_t count) {
  double sum = 0;
  for (uint32_t i = threadIdx.x; i < count; i += 1024)
    sum += partials[i];
  // An infinity that a conversion to FP8 saturated shows in the amax that was recorded before it.
  for (uint32_t s = threadIdx.x; s < tables.sites; s += 1024)
    if (!(tables.siteAmax[s] - tables.siteAmax[s] == 0.0f))
      sum = __longlong_as_double(0x7ff8000000000000ll);
  sum = blockSum<1024>(sum);
  if (threadIdx.x == 0) {
    StepState &state = *tables.state;
    state.sums[0] = sum;
    state.sums[1] = state.lossCount > 0 ? state.lossSum / state.lossCount : 0.0;
  }
}

// One warp.
extern "C" __global__ void msampFinishNorm(StepTables tables, uint32_t ranks, double microBatches) {
  float largest = 0;
  for (uint32_t p = threadIdx.x; p < tables.parameters; p += 32)
    largest = fmaxf(largest, tables.weightAmax[p]);
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  if (threadIdx.x == 0)
    finishNorm(*tables.state, ranks, microBatches, largest);
}

extern "C" __global__ void msampPlanScales(StepTables tables, ClassRule rule) {
  const uint32_t p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p < tables.parameters && tables.parameterClass[p] == rule.index && !tables.state->skipped)
    planScales(tables, rule, weightGrowth(*tables.state, rule.sgd), p);
}

extern "C" __global__ void msampCommitScales(StepTables tables, ClassRule rule) {
  const uint32_t p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p < tables.parameters && tables.parameterClass[p] == rule.index && !tables.state->skipped)
    commitScales(tables, p);
}

extern "C" __global__ void msampCalibrate(StepTables tables, const __grid_constant__ ScalarList list) {
  if (threadIdx.x < list.count)
    calibrateSite(tables, list.entries[threadIdx.x], *list.values[threadIdx.x]);
}

// As recordSite, for sites that may stand in the list more than once: bits of magnitudes are ordered as they are, NaN on top,
// and -1 below all.
extern "C" __global__ void msampRecordAmax(StepTables tables, const __grid_constant__ ScalarList list) {
  if (threadIdx.x >= list.count)
    return;
  const float amax = *list.values[threadIdx.x];
  const int bits = amax == amax ? __float_as_int(amax) : 0x7fffffff;
  atomicMax(reinterpret_cast<int *>(tables.siteAmax + list.entries[threadIdx.x]), bits);
}

extern "C" __global__ void msampStoreGradScales(StepTables tables, const __grid_constant__ ScalarList list) {
  if (threadIdx.x < list.count)
    tables.gradScale[list.entries[threadIdx.x]] = *list.values[threadIdx.x];
}

// One block.
extern "C" __global__ void msampPushSites(StepTables tables) {
  __shared__ uint32_t saturated, nonFinite, unused, changed, learned;
  if (threadIdx.x == 0)
    saturated = nonFinite = unused = changed = learned = 0;
  __syncthreads();
  for (uint32_t s = threadIdx.x; s < tables.sites; s += blockDim.x) {
    const SitePush push = pushSite(tables, s);
    if (push.saturated) atomicAdd(&saturated, 1u);
    if (push.nonFinite) atomicAdd(&nonFinite, 1u);
    if (push.unused) atomicAdd(&unused, 1u);
    if (push.changed) atomicOr(&changed, 1u);
    if (push.learned) atomicOr(&learned, 1u);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    StepState &state = *tables.state;
    state.saturated = saturated;
    state.nonFinite = nonFinite;
    state.unused = unused;
    state.sitesChanged = changed;
    state.sitesHaveHistory |= learned;
    ++state.siteSteps;
  }
}

extern "C" __global__ void msampSpreadScales(const float *byParameter, const int32_t *owner, float *byBlock, int64_t blocks) {
  const int64_t b = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (b < blocks)
    byBlock[b] = byParameter[owner[b]];
}
