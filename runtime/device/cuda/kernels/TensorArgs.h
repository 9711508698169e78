// Arguments of the kernels that move tensors.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_TENSORARGS_H
#define MSAMP_RUNTIME_DEVICE_CUDA_KERNELS_TENSORARGS_H

#include <cstdint>

#include "runtime/core/Types.h"

namespace msamp::runtime::cuda {

// Two tensors of one shape, dimensions merged where both allow it; strides in elements.
struct MoveArgs {
  const void *from;
  void *to;
  Type fromType, toType;
  uint32_t rank;
  int64_t shape[8], fromStrides[8], toStrides[8];
  int64_t count;
};

// Lookup and its transpose: slices of `inner` values; `rows` of them in the table at each of `outer` positions.
struct LookupArgs {
  const void *table;
  void *result;
  const void *indices;
  Type tableType, resultType, indexType;
  int64_t outer, rows, inner, count;
};

// Stable order of updates by row: chunks of `scatterChunk` updates are counted apart. A block of threads adds up the counts
// of `scatterBlock` rows, or sums the updates of `scatterRows` rows in `scatterColumns` columns.
inline constexpr unsigned scatterChunk = 1024, scatterBlock = 256, scatterRows = 16, scatterColumns = 512;
struct ScatterArgs {
  const void *updates, *indices;
  void *table;
  Type updateType, indexType, tableType;
  int64_t rows, width, count;
  uint32_t chunks;
  uint32_t *counts;  // [chunks][rows]; afterwards where the chunk's updates of the row begin
  uint32_t *starts;  // [rows + 1]
  uint32_t *sums;    // a block of rows
  uint32_t *order;   // [count]
};

// Sums of blocks of 128 over several sources.
inline constexpr unsigned maxSources = 128;
struct ReduceArgs {
  const void *data[maxSources];
  const float *scale[maxSources];
  uint32_t sources;
  Type sourceType, type;
  void *destination;
  float *destinationScale;
  int64_t blocks;
};

} // namespace msamp::runtime::cuda

#endif
