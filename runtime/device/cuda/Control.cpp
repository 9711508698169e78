// Launches of the control kernels and of those that move tensors.
#include <algorithm>

#include "runtime/core/Error.h"
#include "runtime/device/FoldedDims.h"
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/cuda/kernels/ControlArgs.h"
#include "runtime/device/cuda/kernels/TensorArgs.h"

namespace msamp::runtime::cuda {

namespace {

constexpr unsigned block = 256;

unsigned gridFor(int64_t count, unsigned processors) {
  return static_cast<unsigned>(std::clamp<int64_t>((count + block - 1) / block, 1, int64_t{processors} * 32));
}

MoveArgs moveOf(const Tensor &from, const Tensor &to) {
  const FoldedDims<2> dims = foldedDims(from, to);
  MoveArgs args{};
  args.from = from.data;
  args.to = to.data;
  args.fromType = from.type;
  args.toType = to.type;
  args.count = to.elements();
  args.rank = dims.rank;
  for (unsigned d = 0; d < dims.rank; ++d) {
    args.shape[d] = dims.shape[d];
    args.fromStrides[d] = dims.strides[d][0];
    args.toStrides[d] = dims.strides[d][1];
  }
  return args;
}

// The same in words of 16 bytes, where all runs allow it.
bool widen(MoveArgs &args) {
  const auto size = static_cast<int64_t>(sizeOf(args.toType)), values = 16 / size;
  if (args.fromType != args.toType || args.rank == 0)
    return false;
  const uint32_t last = args.rank - 1;
  bool fits = args.fromStrides[last] == 1 && args.toStrides[last] == 1 && args.shape[last] % values == 0 &&
              reinterpret_cast<uintptr_t>(args.from) % 16 == 0 && reinterpret_cast<uintptr_t>(args.to) % 16 == 0;
  for (uint32_t d = 0; d < last; ++d)
    fits &= args.fromStrides[d] % values == 0 && args.toStrides[d] % values == 0;
  if (!fits)
    return false;
  args.shape[last] /= values;
  args.count /= values;
  for (uint32_t d = 0; d < last; ++d) {
    args.fromStrides[d] /= values;
    args.toStrides[d] /= values;
  }
  return true;
}

} // namespace

template <class... Args> void CudaDevice::runOver(Module &module, const char *kernel, int64_t count, const Args &...args) {
  cuda::launch(context_.stream, module.function(kernel), gridFor(count, context_.processors), 1, block, 0, args...);
}

//===--- Control -------------------------------------------------------------------------------------------------------===//

void CudaDevice::bindTables(const StepTables &tables) {
  // Scales of products are single entries of the tables.
  matmul_.setInverses([tables](const Tensor &scale) -> const float * {
    const auto *at = reinterpret_cast<const float *>(scale.data);
    if (scale.elements() != 1)
      return nullptr;
    if (at >= tables.siteScale && at < tables.siteScale + tables.sites)
      return tables.siteInverse + (at - tables.siteScale) * inverseStride;
    if (at >= tables.weightScale && at < tables.weightScale + tables.parameters)
      return tables.weightInverse + (at - tables.weightScale) * inverseStride;
    return nullptr;
  });
}

void CudaDevice::noteLoss(const StepTables &tables, const Tensor &loss, LossUse use) {
  cuda::launch(context_.stream, control_.function("msampNoteLoss"), 1, 1, 1, 0, tables, static_cast<const void *>(loss.data), loss.type,
      use);
}

void CudaDevice::gradSquares(const StepTables &tables, std::span<const GradRange> ranges) {
  auto ctasOf = [&](const GradRange &range) {
    const int64_t words = range.blocks * static_cast<int64_t>(blockSize * sizeOf(range.type)) / 16;
    return std::clamp<int64_t>(words / (squaresThreads * 8), 1, int64_t{context_.processors} * 8);
  };
  // Neighbouring ranges, as buckets are, are one.
  std::vector<GradRange> whole;
  for (const GradRange &range : ranges) {
    if (!whole.empty()) {
      GradRange &last = whole.back();
      const auto *end = static_cast<const std::byte *>(last.data) + static_cast<size_t>(last.blocks * blockSize) * sizeOf(last.type);
      if (end == range.data && last.type == range.type && last.owner + last.blocks == range.owner &&
          (last.blockScale ? last.blockScale + last.blocks : nullptr) == range.blockScale) {
        last.blocks += range.blocks;
        continue;
      }
    }
    whole.push_back(range);
  }
  int64_t ctas = 0;
  for (const GradRange &range : whole)
    ctas += ctasOf(range);
  auto *partials = reinterpret_cast<double *>(scratch_.get(static_cast<size_t>(ctas) * sizeof(double)));
  int64_t first = 0;
  for (const GradRange &range : whole) {
    const SquaresArgs args{range.data, range.type, range.blockScale, tables.gradScale, range.owner, range.blocks, partials + first};
    cuda::launch(context_.stream, control_.function("msampSquares"), static_cast<unsigned>(ctasOf(range)), 1, squaresThreads, 0, args);
    first += ctasOf(range);
  }
  cuda::launch(context_.stream, control_.function("msampSumSquares"), 1, 1, 1024, 0, tables, static_cast<const double *>(partials),
      static_cast<uint32_t>(ctas));
}

void CudaDevice::finishNorm(const StepTables &tables, unsigned ranks, double microBatches) {
  cuda::launch(context_.stream, control_.function("msampFinishNorm"), 1, 1, 32, 0, tables, static_cast<uint32_t>(ranks), microBatches);
}

void CudaDevice::planScales(const StepTables &tables, const ClassRule &rule) {
  runOver(control_, "msampPlanScales", tables.parameters, tables, rule);
}

void CudaDevice::commitScales(const StepTables &tables, const ClassRule &rule) {
  runOver(control_, "msampCommitScales", tables.parameters, tables, rule);
}

void CudaDevice::scalars(const char *kernel, const StepTables &tables, std::span<const float *const> values,
    std::span<const uint32_t> entries) {
  for (size_t first = 0; first < values.size(); first += scalarsAtOnce) {
    ScalarList list{};
    list.count = static_cast<uint32_t>(std::min<size_t>(scalarsAtOnce, values.size() - first));
    std::copy_n(values.begin() + static_cast<long>(first), list.count, list.values);
    std::copy_n(entries.begin() + static_cast<long>(first), list.count, list.entries);
    cuda::launch(context_.stream, control_.function(kernel), 1, 1, scalarsAtOnce, 0, tables, list);
  }
}

void CudaDevice::calibrate(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) {
  scalars("msampCalibrate", tables, values, sites);
}

void CudaDevice::recordAmax(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) {
  scalars("msampRecordAmax", tables, values, sites);
}

void CudaDevice::storeGradScales(const StepTables &tables, std::span<const float *const> values,
    std::span<const uint32_t> parameters) {
  scalars("msampStoreGradScales", tables, values, parameters);
}

void CudaDevice::pushSites(const StepTables &tables) {
  cuda::launch(context_.stream, control_.function("msampPushSites"), 1, 1, block, 0, tables);
}

void CudaDevice::spreadScales(const float *byParameter, const int32_t *owner, float *byBlock, int64_t blocks) {
  if (blocks > 0)
    cuda::launch(lane_, control_.function("msampSpreadScales"), static_cast<unsigned>((blocks + block - 1) / block), 1, block,
        0, byParameter, owner, byBlock, blocks);
}

//===--- Tensors -------------------------------------------------------------------------------------------------------===//

void CudaDevice::copy(const Tensor &source, const Tensor &destination) {
  MoveArgs args = moveOf(source, destination);
  if (args.count == 0)
    return;
  if (args.fromType != args.toType && !(isFloat(args.fromType) && isFloat(args.toType)))
    failInternal("copy from {} to {}", nameOf(source.type), nameOf(destination.type));
  const bool same = args.fromType == args.toType;
  if (same && (args.rank == 0 || (args.rank == 1 && args.fromStrides[0] == 1 && args.toStrides[0] == 1)))
    return copyBytes(args.to, args.from, static_cast<size_t>(args.count) * sizeOf(args.toType));
  // Read along one dimension, written along the other.
  if (same && sizeOf(args.toType) == 1 && (args.rank == 2 || args.rank == 3)) {
    const uint32_t d = args.rank - 2;
    const bool batched = args.rank == 3;
    const unsigned batches = batched ? static_cast<unsigned>(args.shape[0]) : 1;
    const int64_t fromBatch = batched ? args.fromStrides[0] : 0, toBatch = batched ? args.toStrides[0] : 0;
    auto transpose = [&](int64_t rows, int64_t cols, int64_t fromStride, int64_t toStride) {
      const auto tiles = static_cast<unsigned>((rows + 63) / 64 * ((cols + 63) / 64));
      cuda::launch(context_.stream, tensors_.function("msampTransposeBytes"), tiles, batches, 256, 0, args.from, args.to, rows, cols,
          fromStride, toStride, fromBatch, toBatch);
    };
    if (batches < 65536 && args.fromStrides[d] == 1 && args.toStrides[d + 1] == 1)
      return transpose(args.shape[d + 1], args.shape[d], args.fromStrides[d + 1], args.toStrides[d]);
    if (batches < 65536 && args.fromStrides[d + 1] == 1 && args.toStrides[d] == 1)
      return transpose(args.shape[d], args.shape[d + 1], args.fromStrides[d], args.toStrides[d + 1]);
  }
  if (widen(args))
    return runOver(tensors_, "msampMoveWide", args.count, args);
  runOver(tensors_, "msampMove", args.count, args);
}

void CudaDevice::fill(const Tensor &destination, double value) {
  const MoveArgs args = moveOf(destination, destination);
  if (args.count == 0)
    return;
  uint64_t pattern = 0;
  const auto asFloat = static_cast<float>(value);
  if (isFloat(destination.type))
    encode(destination.type, &asFloat, &pattern, 1);
  else
    pattern = static_cast<uint64_t>(static_cast<int64_t>(value)); // little-endian: its low bytes are the narrower integers
  const bool dense = args.rank == 0 || (args.rank == 1 && args.toStrides[0] == 1);
  if (dense && pattern == 0)
    MSAMP_CU(cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(args.to), 0, static_cast<size_t>(args.count) * sizeOf(args.toType),
        context_.stream);
  else
    runOver(tensors_, "msampFill", args.count, args, pattern);
}

void CudaDevice::accumulate(const Tensor &value, const Tensor &sum, bool first) {
  if (first)
    return copy(value, sum);
  const MoveArgs args = moveOf(value, sum);
  if (args.count > 0)
    runOver(tensors_, "msampAccumulate", args.count, args);
}

void CudaDevice::gather(const Tensor &table, const Tensor &indices, unsigned axis, const Tensor &result) {
  if (axis >= table.rank || !table.contiguous() || !indices.contiguous() || !result.contiguous())
    failInternal("lookup along dimension {} of a table of {}, or of tensors with gaps", axis, table.rank);
  LookupArgs args{table.data, result.data, indices.data, table.type, result.type, indices.type, 1, table.shape[axis], 1,
      indices.elements()};
  for (unsigned d = 0; d < axis; ++d)
    args.outer *= table.shape[d];
  for (unsigned d = axis + 1; d < table.rank; ++d)
    args.inner *= table.shape[d];
  const int64_t slices = args.outer * args.count;
  if (slices == 0 || args.inner == 0)
    return;
  const auto grid = static_cast<unsigned>(std::min<int64_t>(slices, int64_t{context_.processors} * 256));
  cuda::launch(context_.stream, tensors_.function("msampGather"), grid, 1, args.inner >= 1024 ? 128 : 64, 0, args);
}

void CudaDevice::scatterAdd(const Tensor &updates, const Tensor &indices, const Tensor &table) {
  const int64_t rows = table.rank > 0 ? table.shape[0] : 0, count = indices.elements();
  const int64_t width = rows > 0 ? table.elements() / rows : 0;
  if (table.rank < 1 || !table.contiguous() || !indices.contiguous() || !updates.contiguous() ||
      updates.elements() != count * width)
    failInternal("scatter-add of {} values at {} indices into rows of {}", updates.elements(), count, width);
  if (rows == 0 || width == 0)
    return;
  ScatterArgs args{updates.data, indices.data, table.data, updates.type, indices.type, table.type, rows, width, count, 0, nullptr,
      nullptr, nullptr, nullptr};
  args.chunks = static_cast<uint32_t>((count + scatterChunk - 1) / scatterChunk);
  Parts parts;
  const int64_t rowBlocks = (rows + scatterBlock - 1) / scatterBlock;
  const size_t counts = parts.add(size_t{args.chunks} * static_cast<size_t>(rows) * sizeof(uint32_t)),
               starts = parts.add(static_cast<size_t>(rows + 1) * sizeof(uint32_t)),
               sums = parts.add(static_cast<size_t>(rowBlocks) * sizeof(uint32_t)),
               order = parts.add(static_cast<size_t>(count) * sizeof(uint32_t));
  std::byte *memory = scratch_.get(parts.total());
  args.counts = reinterpret_cast<uint32_t *>(memory + counts);
  args.starts = reinterpret_cast<uint32_t *>(memory + starts);
  args.sums = reinterpret_cast<uint32_t *>(memory + sums);
  args.order = reinterpret_cast<uint32_t *>(memory + order);
  MSAMP_CU(cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(args.counts), 0, starts - counts, context_.stream);
  auto run = [&](const char *kernel, int64_t gridX, int64_t gridY, unsigned threads) {
    if (gridX > 0)
      cuda::launch(context_.stream, tensors_.function(kernel), static_cast<unsigned>(gridX), static_cast<unsigned>(gridY), threads, 0,
          args);
  };
  run("msampScatterCount", args.chunks, 1, scatterChunk);
  run("msampScatterPlaces", rowBlocks, 1, scatterBlock);
  run("msampScatterStarts", rowBlocks, 1, scatterBlock);
  run("msampScatterOrder", args.chunks, 1, scatterChunk);
  auto isWide = [&](const Tensor &tensor) {
    return (tensor.type == Type::BF16 || tensor.type == Type::F32) && reinterpret_cast<uintptr_t>(tensor.data) % 16 == 0;
  };
  if (width % 8 == 0 && isWide(updates) && isWide(table)) {
    run("msampScatterSumFew", (rows + scatterRows - 1) / scatterRows, (width + scatterColumns - 1) / scatterColumns, 256);
    run("msampScatterSumMany", std::min<int64_t>(rows, 64), (width + 255) / 256, 256);
  } else {
    run("msampScatterSum", rows, (width + 511) / 512, 256);
  }
}

void CudaDevice::reduceBlocks(std::span<const BlockSpan> sources, void *destination, Type type, float *scale, int64_t blocks) {
  if (sources.size() > maxSources)
    failInternal("a sum over {} ranks; {} are possible", sources.size(), maxSources);
  if (blocks == 0)
    return;
  ReduceArgs args{};
  for (size_t s = 0; s < sources.size(); ++s) {
    args.data[s] = sources[s].data;
    args.scale[s] = sources[s].scale;
  }
  args.sources = static_cast<uint32_t>(sources.size());
  args.sourceType = sources[0].type;
  args.type = type;
  args.destination = destination;
  args.destinationScale = scale;
  args.blocks = blocks;
  const auto grid = static_cast<unsigned>(std::min<int64_t>((blocks + 7) / 8, int64_t{context_.processors} * 16));
  cuda::launch(lane_, tensors_.function("msampReduceBlocks"), grid, 1, 256, 0, args);
}

} // namespace msamp::runtime::cuda
