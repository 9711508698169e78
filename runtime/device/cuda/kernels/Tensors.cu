// Steps that move or add values without a kernel of their own.
#include "runtime/core/Scale.h"
#include "runtime/device/cuda/kernels/TensorArgs.h"
#include "runtime/device/cuda/kernels/Values.cuh"

using namespace msamp::runtime;
using namespace msamp::runtime::cuda;

namespace {

__device__ void offsetsOf(const MoveArgs &args, int64_t i, int64_t &from, int64_t &to) {
  from = to = 0;
  for (int d = static_cast<int>(args.rank) - 1; d >= 0; --d) {
    const int64_t index = i % args.shape[d];
    i /= args.shape[d];
    from += index * args.fromStrides[d];
    to += index * args.toStrides[d];
  }
}

template <class T> __device__ void moveValue(const MoveArgs &args, int64_t from, int64_t to) {
  static_cast<T *>(args.to)[to] = static_cast<const T *>(args.from)[from];
}

__device__ int64_t indexAt(const void *indices, Type type, int64_t i, int64_t rows) {
  const int64_t index = type == Type::I64 ? static_cast<const int64_t *>(indices)[i] : static_cast<const int32_t *>(indices)[i];
  return index < 0 ? index + rows : index; // negative ones count from the end, as in ONNX
}

} // namespace

extern "C" __global__ void msampMove(const __grid_constant__ MoveArgs args) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    int64_t from, to;
    offsetsOf(args, i, from, to);
    if (args.fromType != args.toType)
      storeValue(args.to, args.toType, to, loadValue(args.from, args.fromType, from));
    else
      switch (sizeOf(args.fromType)) {
      case 1: moveValue<uint8_t>(args, from, to); break;
      case 2: moveValue<uint16_t>(args, from, to); break;
      case 4: moveValue<uint32_t>(args, from, to); break;
      default: moveValue<uint64_t>(args, from, to); break;
      }
  }
}

// Runs of `unit` 16-byte words that are contiguous on both sides; the last dimension of args counts words.
extern "C" __global__ void msampMoveWide(const __grid_constant__ MoveArgs args) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    int64_t from, to;
    offsetsOf(args, i, from, to);
    moveValue<uint4>(args, from, to);
  }
}

// [rows, cols] to [cols, rows], both contiguous along their last dimension (strides of the other may be larger), bytes. Tiles of
// 64 x 64 through shared memory. 256 threads; grid: tiles, batches.
extern "C" __global__ void __launch_bounds__(256) msampTransposeBytes(const uint8_t *from, uint8_t *to, int64_t rows, int64_t cols,
    int64_t fromStride, int64_t toStride, int64_t fromBatch, int64_t toBatch) {
  __shared__ uint32_t tile[64][17];
  const int64_t tilesCols = (cols + 63) / 64;
  const int64_t row0 = blockIdx.x / tilesCols * 64, col0 = blockIdx.x % tilesCols * 64;
  from += blockIdx.y * fromBatch;
  to += blockIdx.y * toBatch;
  const bool whole = row0 + 64 <= rows && col0 + 64 <= cols && fromStride % 4 == 0 && toStride % 4 == 0 &&
                     (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % 4 == 0;
  if (!whole) {
    for (int i = threadIdx.x; i < 64 * 64; i += 256) {
      const int64_t row = row0 + i % 64, col = col0 + i / 64;
      if (row < rows && col < cols)
        to[col * toStride + row] = from[row * fromStride + col];
    }
    return;
  }
  // A thread takes 4 rows x 4 columns: four words, transposed in registers.
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  uint32_t in[4], out[4];
  for (int r = 0; r < 4; ++r)
    in[r] = *reinterpret_cast<const uint32_t *>(from + (row0 + y * 4 + r) * fromStride + col0 + x * 4);
  const uint32_t low0 = __byte_perm(in[0], in[1], 0x5140), low1 = __byte_perm(in[2], in[3], 0x5140);
  const uint32_t high0 = __byte_perm(in[0], in[1], 0x7362), high1 = __byte_perm(in[2], in[3], 0x7362);
  out[0] = __byte_perm(low0, low1, 0x5410);
  out[1] = __byte_perm(low0, low1, 0x7632);
  out[2] = __byte_perm(high0, high1, 0x5410);
  out[3] = __byte_perm(high0, high1, 0x7632);
  for (int c = 0; c < 4; ++c)
    tile[x * 4 + c][y] = out[c];
  __syncthreads();
  for (int i = threadIdx.x; i < 64 * 16; i += 256)
    *reinterpret_cast<uint32_t *>(to + (col0 + i / 16) * toStride + row0 + i % 16 * 4) = tile[i / 16][i % 16];
}

extern "C" __global__ void msampAccumulate(const __grid_constant__ MoveArgs args) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    int64_t from, to;
    offsetsOf(args, i, from, to);
    storeValue(args.to, args.toType, to, loadValue(args.to, args.toType, to) + loadValue(args.from, args.fromType, from));
  }
}

// `pattern` holds the value `size` bytes wide; `to` is described as in a move.
extern "C" __global__ void msampFill(const __grid_constant__ MoveArgs args, uint64_t pattern) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    int64_t from, to;
    offsetsOf(args, i, from, to);
    switch (sizeOf(args.toType)) {
    case 1: static_cast<uint8_t *>(args.to)[to] = static_cast<uint8_t>(pattern); break;
    case 2: static_cast<uint16_t *>(args.to)[to] = static_cast<uint16_t>(pattern); break;
    case 4: static_cast<uint32_t *>(args.to)[to] = static_cast<uint32_t>(pattern); break;
    default: static_cast<uint64_t *>(args.to)[to] = pattern; break;
    }
  }
}

// A slice a block of threads at a time. Indices out of range were refused when the data was read; here they give row 0.
extern "C" __global__ void msampGather(const __grid_constant__ LookupArgs args) {
  const size_t size = sizeOf(args.tableType);
  const bool wide = args.tableType == args.resultType && args.inner * size % 16 == 0 &&
                    (reinterpret_cast<uintptr_t>(args.table) | reinterpret_cast<uintptr_t>(args.result)) % 16 == 0;
  for (int64_t slice = blockIdx.x; slice < args.outer * args.count; slice += gridDim.x) {
    int64_t row = indexAt(args.indices, args.indexType, slice % args.count, args.rows);
    row = row < 0 || row >= args.rows ? 0 : row;
    const int64_t from = (slice / args.count * args.rows + row) * args.inner, to = slice * args.inner;
    if (wide) {
      const auto *source = reinterpret_cast<const uint4 *>(static_cast<const char *>(args.table) + from * size);
      auto *target = reinterpret_cast<uint4 *>(static_cast<char *>(args.result) + to * size);
      for (int64_t i = threadIdx.x; i < args.inner * static_cast<int64_t>(size) / 16; i += blockDim.x)
        target[i] = source[i];
    } else if (args.tableType == args.resultType) {
      const auto *source = static_cast<const char *>(args.table) + from * size;
      auto *target = static_cast<char *>(args.result) + to * size;
      for (int64_t i = threadIdx.x; i < args.inner * static_cast<int64_t>(size); i += blockDim.x)
        target[i] = source[i];
    } else {
      for (int64_t i = threadIdx.x; i < args.inner; i += blockDim.x)
        storeValue(args.result, args.resultType, to + i, loadValue(args.table, args.tableType, from + i));
    }
  }
}

//===--- Scatter-add: a stable counting sort, then sums in the order of the updates --------------------------------------===//

// A chunk a block.
extern "C" __global__ void msampScatterCount(const __grid_constant__ ScatterArgs args) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * scatterChunk + threadIdx.x;
  if (i >= args.count)
    return;
  const int64_t row = indexAt(args.indices, args.indexType, i, args.rows);
  if (row >= 0 && row < args.rows)
    atomicAdd(args.counts + blockIdx.x * args.rows + row, 1u);
}

// Counts of each row over the chunks become places within the row; whole counts, added up within the block of rows, go to
// starts.
extern "C" __global__ void __launch_bounds__(scatterBlock) msampScatterPlaces(const __grid_constant__ ScatterArgs args) {
  constexpr uint32_t ahead = 8;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * scatterBlock + threadIdx.x;
  uint32_t sum = 0;
  for (uint32_t first = 0; row < args.rows && first < args.chunks; first += ahead) {
    uint32_t *counts = args.counts + first * args.rows + row, own[ahead];
    const uint32_t there = min(ahead, args.chunks - first);
#pragma unroll
    for (uint32_t c = 0; c < ahead; ++c)
      own[c] = c < there ? counts[c * args.rows] : 0;
#pragma unroll
    for (uint32_t c = 0; c < ahead; ++c) {
      if (c < there)
        counts[c * args.rows] = sum;
      sum += own[c];
    }
  }
  __shared__ uint32_t warps[scatterBlock / 32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (unsigned step = 1; step < 32; step *= 2) {
    const uint32_t left = __shfl_up_sync(0xffffffffu, sum, step);
    sum += lane >= step ? left : 0;
  }
  if (lane == 31)
    warps[warp] = sum;
  __syncthreads();
  for (unsigned w = 0; w < warp; ++w)
    sum += warps[w];
  if (row < args.rows)
    args.starts[row + 1] = sum;
  if (threadIdx.x == scatterBlock - 1)
    args.sums[blockIdx.x] = sum;
}

// What the blocks before hold is added to starts.
extern "C" __global__ void __launch_bounds__(scatterBlock) msampScatterStarts(const __grid_constant__ ScatterArgs args) {
  __shared__ uint32_t before;
  if (threadIdx.x == 0)
    before = 0;
  __syncthreads();
  uint32_t own = 0;
  for (unsigned b = threadIdx.x; b < blockIdx.x; b += scatterBlock)
    own += args.sums[b];
  own = __reduce_add_sync(0xffffffffu, own);
  if (threadIdx.x % 32 == 0)
    atomicAdd(&before, own);
  __syncthreads();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * scatterBlock + threadIdx.x;
  if (row < args.rows)
    args.starts[row + 1] += before;
  if (row == 0)
    args.starts[0] = 0;
}

extern "C" __global__ void __launch_bounds__(scatterChunk) msampScatterOrder(const __grid_constant__ ScatterArgs args) {
  __shared__ int4 rows[scatterChunk / 4];
  const int64_t i = static_cast<int64_t>(blockIdx.x) * scatterChunk + threadIdx.x;
  int row = -1; // counts of all rows are in memory: there are fewer than 2^31
  if (i < args.count) {
    const int64_t index = indexAt(args.indices, args.indexType, i, args.rows);
    row = index >= 0 && index < args.rows ? static_cast<int>(index) : -1;
  }
  reinterpret_cast<int *>(rows)[threadIdx.x] = row;
  __syncthreads();
  // Equal ones in the warp's lower lanes, and in the warps before.
  const unsigned lane = threadIdx.x % 32, alike = __match_any_sync(0xffffffffu, row);
  uint32_t before = __popc(alike & ((1u << lane) - 1));
  for (unsigned j = 0; j < (threadIdx.x - lane) / 4; ++j) {
    const int4 four = rows[j];
    before += (four.x == row) + (four.y == row) + (four.z == row) + (four.w == row);
  }
  if (row >= 0)
    args.order[args.starts[row] + args.counts[blockIdx.x * args.rows + row] + before] = static_cast<uint32_t>(i);
}

// Of any types. Block (x, y): row x, columns from y * 512 on; two columns a thread.
extern "C" __global__ void __launch_bounds__(256) msampScatterSum(const __grid_constant__ ScatterArgs args) {
  const int64_t row = blockIdx.x;
  const uint32_t begin = args.starts[row], end = args.starts[row + 1];
  for (int part = 0; part < 2; ++part) {
    const int64_t column = static_cast<int64_t>(blockIdx.y) * 512 + part * 256 + threadIdx.x;
    if (column >= args.width)
      return;
    float sum = 0;
#pragma unroll 8
    for (uint32_t j = begin; j < end; ++j)
      sum += loadValue(args.updates, args.updateType, static_cast<int64_t>(args.order[j]) * args.width + column);
    storeValue(args.table, args.tableType, row * args.width + column, sum);
  }
}

// Rows of up to this many updates, of BF16 or FP32 and widths that are multiples of 8: eight columns a thread, which has the
// first updates of several rows in flight at once.
constexpr uint32_t fewUpdates = 32;

template <Type update, Type table> __device__ void sumFew(const ScatterArgs &args) {
  constexpr unsigned teams = 256 / (scatterColumns / 8), atOnce = update == Type::F32 ? 2 : 4, ahead = 2;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * scatterColumns + threadIdx.x % (scatterColumns / 8) * 8;
  if (column >= args.width)
    return;
  auto updateAt = [&](uint32_t place) {
    return Eight<update>(args.updates, static_cast<int64_t>(args.order[place]) * args.width + column);
  };
#pragma unroll 1
  for (unsigned pass = 0; pass < scatterRows / (teams * atOnce); ++pass) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * scatterRows + (threadIdx.x / (scatterColumns / 8)) + pass * teams * atOnce;
    uint32_t begin[atOnce], count[atOnce];
    Eight<update> first[atOnce][ahead];
#pragma unroll
    for (unsigned r = 0; r < atOnce; ++r) {
      begin[r] = args.starts[min(row + r * teams, args.rows)];
      count[r] = args.starts[min(row + r * teams + 1, args.rows)] - begin[r];
    }
#pragma unroll
    for (unsigned r = 0; r < atOnce; ++r)
#pragma unroll
      for (unsigned a = 0; a < ahead; ++a)
        if (a < count[r])
          first[r][a] = updateAt(begin[r] + a);
#pragma unroll
    for (unsigned r = 0; r < atOnce; ++r) {
      float total[8] = {};
#pragma unroll
      for (unsigned a = 0; a < ahead; ++a)
        first[r][a].addTo(total);
      if (count[r] > fewUpdates || row + r * teams >= args.rows)
        continue;
#pragma unroll 1
      for (uint32_t j = ahead; j < count[r]; ++j)
        updateAt(begin[r] + j).addTo(total);
      storeEight<table>(args.table, (row + r * teams) * args.width + column, total);
    }
  }
}

// Rows of more updates, 256 columns a block: its warps take one update after the other, and their sums are added in their
// order.
template <Type update, Type table> __device__ void sumMany(const ScatterArgs &args, float (&sums)[8][256]) {
  constexpr unsigned ahead = update == Type::F32 ? 4 : 8;
  __shared__ uint32_t found[8];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.y) * 256 + lane * 8;
  // Rows that follow each other are those of different blocks.
  for (int64_t first = blockIdx.x; first < args.rows; first += 256 * static_cast<int64_t>(gridDim.x)) {
    const int64_t own = first + threadIdx.x * static_cast<int64_t>(gridDim.x);
    const bool many = own < args.rows && args.starts[own + 1] - args.starts[own] > fewUpdates;
    const uint32_t ballot = __ballot_sync(0xffffffffu, many);
    if (lane == 0)
      found[warp] = ballot;
    __syncthreads();
    for (unsigned w = 0; w < 8; ++w)
      for (uint32_t left = found[w]; left != 0; left &= left - 1) {
        const int64_t row = first + (w * 32 + __ffs(left) - 1) * static_cast<int64_t>(gridDim.x);
        const uint32_t begin = args.starts[row], end = args.starts[row + 1];
        float total[8] = {};
        for (uint32_t j = begin + warp; column < args.width && j < end; j += 8 * ahead) {
          auto updateAt = [&](unsigned a) {
            const uint32_t number = args.order[min(j + 8 * a, end - 1)];
            return Eight<update>(args.updates, static_cast<int64_t>(number) * args.width + column);
          };
          Eight<update> values[ahead];
#pragma unroll
          for (unsigned a = 0; a < ahead; ++a)
            values[a] = updateAt(a);
#pragma unroll
          for (unsigned a = 0; a < ahead; ++a)
            if (j + 8 * a < end)
              values[a].addTo(total);
        }
#pragma unroll
        for (int e = 0; e < 8; ++e)
          sums[warp][lane * 8 + e] = total[e];
        __syncthreads();
        if (warp == 0 && column < args.width) {
          for (unsigned other = 1; other < 8; ++other)
#pragma unroll
            for (int e = 0; e < 8; ++e)
              total[e] += sums[other][lane * 8 + e];
          storeEight<table>(args.table, row * args.width + column, total);
        }
        __syncthreads();
      }
    __syncthreads();
  }
}

extern "C" __global__ void __launch_bounds__(256, 3) msampScatterSumFew(const __grid_constant__ ScatterArgs args) {
  const bool narrow = args.updateType == Type::BF16, narrowTable = args.tableType == Type::BF16;
  if (narrow)
    narrowTable ? sumFew<Type::BF16, Type::BF16>(args) : sumFew<Type::BF16, Type::F32>(args);
  else
    narrowTable ? sumFew<Type::F32, Type::BF16>(args) : sumFew<Type::F32, Type::F32>(args);
}

extern "C" __global__ void __launch_bounds__(256) msampScatterSumMany(const __grid_constant__ ScatterArgs args) {
  __shared__ float sums[8][256];
  const bool narrow = args.updateType == Type::BF16, narrowTable = args.tableType == Type::BF16;
  if (narrow)
    narrowTable ? sumMany<Type::BF16, Type::BF16>(args, sums) : sumMany<Type::BF16, Type::F32>(args, sums);
  else
    narrowTable ? sumMany<Type::F32, Type::BF16>(args, sums) : sumMany<Type::F32, Type::F32>(args, sums);
}

//===--- Blocks -----------------------------------------------------------------------------------------------------------===//

// A warp a block of 128, four values a lane.
extern "C" __global__ void __launch_bounds__(256) msampReduceBlocks(const __grid_constant__ ReduceArgs args) {
  const int lane = threadIdx.x % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * 8;
  for (int64_t block = blockIdx.x * 8 + threadIdx.x / 32; block < args.blocks; block += warps) {
    float sum[4] = {};
    for (uint32_t s = 0; s < args.sources; ++s) {
      const float inverse = args.scale[s] ? 1.0f / args.scale[s][block] : 1.0f;
      for (int j = 0; j < 4; ++j) {
        const float value = loadValue(args.data[s], args.sourceType, block * blockSize + lane * 4 + j) * inverse;
        sum[j] = s == 0 ? value : sum[j] + value;
      }
    }
    float scale = 1.0f;
    if (isFp8(args.type)) {
      uint32_t largest = 0;
      for (int j = 0; j < 4; ++j)
        largest = max(largest, __float_as_uint(sum[j]) & 0x7fffffffu);
      largest = __reduce_max_sync(0xffffffffu, largest);
      // Conversion would saturate an infinity; the gradient norm must still see it.
      if (largest >= 0x7f800000u)
        for (float &value : sum)
          value = __int_as_float(0x7fc00000);
      scale = largest >= 0x7f800000u || largest == 0 ? 1.0f : scaleOf(__uint_as_float(largest), args.type);
    }
    for (int j = 0; j < 4; ++j)
      storeValue(args.destination, args.type, block * blockSize + lane * 4 + j, sum[j] * scale);
    if (args.destinationScale && lane == 0)
      args.destinationScale[block] = scale;
  }
}
