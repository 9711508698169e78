// Steps that move or add values without a kernel of their own.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/core/Error.h"
#include "runtime/device/FoldedDims.h"
#include "runtime/device/cpu/CpuDevice.h"

namespace msamp::runtime::cpu {

namespace {

// Two tensors of one shape as runs along the last dimension; few long ones are cut, so that threads and caches get pieces
// of a size they like.
struct Runs {
  FoldedDims<2> outer;
  int64_t length = 1, stepA = 1, stepB = 1;
  int64_t count = 1;

  Runs(const Tensor &a, const Tensor &b) : outer(foldedDims(a, b)) {
    if (outer.rank > 0) {
      const unsigned last = --outer.rank;
      length = outer.shape[last];
      stepA = outer.strides[last][0];
      stepB = outer.strides[last][1];
      if (const int64_t part = piece(); part < length) {
        outer.shape[last] = length / part;
        outer.strides[last] = {stepA * part, stepB * part};
        ++outer.rank;
        length = part;
      }
    }
    for (unsigned d = 0; d < outer.rank; ++d)
      count *= outer.shape[d];
  }

  // The largest part up to 16384 that divides a run, if it has at least 1024; else all.
  int64_t piece() const {
    constexpr int64_t most = 16384, least = 1024;
    if (length > most)
      for (int64_t part = most; part >= least; --part)
        if (length % part == 0)
          return part;
    return length;
  }

  std::pair<int64_t, int64_t> offsets(int64_t run) const {
    int64_t a = 0, b = 0;
    for (unsigned d = outer.rank; d-- > 0;) {
      const int64_t at = run % outer.shape[d];
      a += at * outer.strides[d][0];
      b += at * outer.strides[d][1];
      run /= outer.shape[d];
    }
    return {a, b};
  }
};

// Runs of a loop that go to one grab of a thread.
template <class Body> void overRuns(ThreadPool &pool, const Runs &runs, Body &&body) {
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, runs.length));
  pool.run((runs.count + grain - 1) / grain, [&](int64_t g, unsigned) {
    for (int64_t run = g * grain; run < std::min(runs.count, (g + 1) * grain); ++run)
      body(run);
  });
}

template <class T> void copyStrided(const void *from, int64_t stepFrom, void *to, int64_t stepTo, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    static_cast<T *>(to)[i * stepTo] = static_cast<const T *>(from)[i * stepFrom];
}

// Index i of a lookup; negative ones count from the end, as in ONNX.
int64_t rowAt(const Tensor &indices, int64_t i, int64_t rows) {
  int64_t index = 0;
  if (indices.type == Type::I64)
    index = reinterpret_cast<const int64_t *>(indices.data)[i];
  else if (indices.type == Type::I32)
    index = reinterpret_cast<const int32_t *>(indices.data)[i];
  else
    failInternal("indices of type {}", nameOf(indices.type));
  const int64_t row = index < 0 ? index + rows : index;
  if (row < 0 || row >= rows)
    failData("index {} of a lookup is beyond a table of {} rows", index, rows);
  return row;
}

} // namespace

void CpuDevice::copy(const Tensor &source, const Tensor &destination) {
  if (destination.elements() == 0)
    return;
  const Runs runs(source, destination);
  const size_t sizeFrom = sizeOf(source.type), sizeTo = sizeOf(destination.type);
  if (source.type != destination.type && !(isFloat(source.type) && isFloat(destination.type)))
    failInternal("copy from {} to {}", nameOf(source.type), nameOf(destination.type));
  overRuns(pool_, runs, [&](int64_t run) {
    const auto [a, b] = runs.offsets(run);
    const std::byte *from = source.data + static_cast<size_t>(a) * sizeFrom;
    std::byte *to = destination.data + static_cast<size_t>(b) * sizeTo;
    if (source.type != destination.type) {
      float buffer[256];
      for (int64_t i = 0; i < runs.length; i += 256) {
        const int64_t count = std::min<int64_t>(256, runs.length - i);
        if (runs.stepA == 1)
          decode(source.type, from + static_cast<size_t>(i) * sizeFrom, buffer, count);
        else
          for (int64_t j = 0; j < count; ++j)
            decode(source.type, from + static_cast<size_t>((i + j) * runs.stepA) * sizeFrom, buffer + j, 1);
        if (runs.stepB == 1)
          encode(destination.type, buffer, to + static_cast<size_t>(i) * sizeTo, count);
        else
          for (int64_t j = 0; j < count; ++j)
            encode(destination.type, buffer + j, to + static_cast<size_t>((i + j) * runs.stepB) * sizeTo, 1);
      }
    } else if (runs.stepA == 1 && runs.stepB == 1) {
      std::memcpy(to, from, static_cast<size_t>(runs.length) * sizeFrom);
    } else {
      switch (sizeFrom) {
      case 1: copyStrided<uint8_t>(from, runs.stepA, to, runs.stepB, runs.length); break;
      case 2: copyStrided<uint16_t>(from, runs.stepA, to, runs.stepB, runs.length); break;
      case 4: copyStrided<uint32_t>(from, runs.stepA, to, runs.stepB, runs.length); break;
      default: copyStrided<uint64_t>(from, runs.stepA, to, runs.stepB, runs.length); break;
      }
    }
  });
}

void CpuDevice::fill(const Tensor &destination, double value) {
  if (destination.elements() == 0)
    return;
  std::byte pattern[8] = {};
  const float asFloat = static_cast<float>(value);
  if (isFloat(destination.type))
    encode(destination.type, &asFloat, pattern, 1);
  else {
    const int64_t asInteger = static_cast<int64_t>(value); // little-endian: its low bytes are the narrower integers
    std::memcpy(pattern, &asInteger, sizeof asInteger);
  }
  const Runs runs(destination, destination);
  const size_t size = sizeOf(destination.type);
  bool zero = std::all_of(pattern, pattern + 8, [](std::byte b) { return b == std::byte{0}; });
  overRuns(pool_, runs, [&](int64_t run) {
    std::byte *to = destination.data + static_cast<size_t>(runs.offsets(run).second) * size;
    if (zero && runs.stepB == 1)
      std::memset(to, 0, static_cast<size_t>(runs.length) * size);
    else
      for (int64_t i = 0; i < runs.length; ++i)
        std::memcpy(to + static_cast<size_t>(i * runs.stepB) * size, pattern, size);
  });
}

void CpuDevice::accumulate(const Tensor &value, const Tensor &sum, bool first) {
  if (first)
    return copy(value, sum);
  if (sum.elements() == 0)
    return;
  const Runs runs(value, sum);
  const size_t sizeValue = sizeOf(value.type), sizeSum = sizeOf(sum.type);
  overRuns(pool_, runs, [&](int64_t run) {
    const auto [a, b] = runs.offsets(run);
    const std::byte *from = value.data + static_cast<size_t>(a) * sizeValue;
    std::byte *to = sum.data + static_cast<size_t>(b) * sizeSum;
    float x[256], y[256];
    const bool whole = runs.stepA == 1 && runs.stepB == 1;
    const int64_t step = whole ? 256 : 1;
    for (int64_t i = 0; i < runs.length; i += step) {
      const int64_t count = std::min<int64_t>(step, runs.length - i);
      std::byte *at = to + static_cast<size_t>(i * runs.stepB) * sizeSum;
      decode(value.type, from + static_cast<size_t>(i * runs.stepA) * sizeValue, x, count);
      if (sum.type == Type::F32 && whole) {
        ops_.add(reinterpret_cast<float *>(at), x, count);
        continue;
      }
      decode(sum.type, at, y, count);
      ops_.add(y, x, count);
      encode(sum.type, y, at, count);
    }
  });
}

void CpuDevice::gather(const Tensor &table, const Tensor &indices, unsigned axis, const Tensor &result) {
  if (axis >= table.rank || !table.contiguous() || !indices.contiguous() || !result.contiguous())
    failInternal("lookup along dimension {} of a table of {}, or of tensors with gaps", axis, table.rank);
  const int64_t rows = table.shape[axis], count = indices.elements();
  int64_t outer = 1, inner = 1;
  for (unsigned d = 0; d < table.rank; ++d)
    (d < axis ? outer : inner) *= d == axis ? 1 : table.shape[d];
  if (result.elements() != outer * count * inner)
    failInternal("lookup of {} slices of {} values into {}", outer * count, inner, result.elements());
  const size_t sizeFrom = sizeOf(table.type), sizeTo = sizeOf(result.type);
  const bool converts = table.type != result.type;
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, inner));
  pool_.run((outer * count + grain - 1) / grain, [&](int64_t task, unsigned) {
    for (int64_t i = task * grain; i < std::min(outer * count, (task + 1) * grain); ++i) {
      const std::byte *from = table.data + static_cast<size_t>((i / count * rows + rowAt(indices, i % count, rows)) * inner) * sizeFrom;
      std::byte *to = result.data + static_cast<size_t>(i * inner) * sizeTo;
      if (!converts) {
        std::memcpy(to, from, static_cast<size_t>(inner) * sizeFrom);
        continue;
      }
      float buffer[256];
      for (int64_t j = 0; j < inner; j += 256) {
        const int64_t width = std::min<int64_t>(256, inner - j);
        decode(table.type, from + static_cast<size_t>(j) * sizeFrom, buffer, width);
        encode(result.type, buffer, to + static_cast<size_t>(j) * sizeTo, width);
      }
    }
  });
}

void CpuDevice::scatterAdd(const Tensor &updates, const Tensor &indices, const Tensor &table) {
  const int64_t rows = table.shape[0], count = indices.elements();
  const int64_t width = rows > 0 ? table.elements() / rows : 0;
  if (table.rank < 1 || !table.contiguous() || !indices.contiguous() || !updates.contiguous() ||
      updates.elements() != count * width)
    failInternal("scatter-add of {} values at {} indices into rows of {}", updates.elements(), count, width);
  // Stable counting sort by row: each row is then summed in the order of its updates, whoever does it.
  std::vector<int64_t> start(static_cast<size_t>(rows + 1), 0), order(static_cast<size_t>(count));
  auto indexAt = [&](int64_t i) { return static_cast<size_t>(rowAt(indices, i, rows)); };
  for (int64_t i = 0; i < count; ++i)
    ++start[indexAt(i) + 1];
  for (int64_t r = 0; r < rows; ++r)
    start[static_cast<size_t>(r + 1)] += start[static_cast<size_t>(r)];
  std::vector<int64_t> next(start.begin(), start.end() - 1);
  for (int64_t i = 0; i < count; ++i)
    order[static_cast<size_t>(next[indexAt(i)]++)] = i;

  // Few hot rows would keep one thread busy, so rows are cut into columns as well.
  constexpr int64_t piece = 256;
  const int64_t pieces = std::max<int64_t>(1, (width + piece - 1) / piece);
  const int64_t grain = std::max<int64_t>(1, rows / 256);
  const size_t sizeFrom = sizeOf(updates.type), sizeTo = sizeOf(table.type);
  pool_.run((rows + grain - 1) / grain * pieces, [&](int64_t task, unsigned) {
    const int64_t column = task % pieces * piece, columns = std::min(piece, width - column);
    for (int64_t r = task / pieces * grain; r < std::min(rows, (task / pieces + 1) * grain); ++r) {
      float sum[piece] = {}, value[piece];
      for (int64_t j = start[static_cast<size_t>(r)]; j < start[static_cast<size_t>(r + 1)]; ++j) {
        const int64_t from = order[static_cast<size_t>(j)] * width + column;
        decode(updates.type, updates.data + static_cast<size_t>(from) * sizeFrom, value, columns);
        ops_.add(sum, value, columns);
      }
      encode(table.type, sum, table.data + static_cast<size_t>(r * width + column) * sizeTo, columns);
    }
  });
}

} // namespace msamp::runtime::cpu
