// The control of a step: a few scalars and tables, on the calling thread.
#include <cmath>
#include <limits>

#include "runtime/device/cpu/CpuDevice.h"

namespace msamp::runtime::cpu {

void CpuDevice::noteLoss(const StepTables &tables, const Tensor &loss, LossUse use) {
  float value = 0;
  decode(loss.type, loss.data, &value, 1);
  runtime::noteLoss(*tables.state, value, use);
}

double CpuDevice::sumOfSquares(const BlockSpan &values, int64_t blocks) {
  constexpr int64_t runBlocks = 64;
  const int64_t runs = (blocks + runBlocks - 1) / runBlocks;
  std::vector<double> partial(static_cast<size_t>(runs));
  const auto *data = static_cast<const std::byte *>(values.data);
  const size_t stride = blockSize * sizeOf(values.type);
  pool_.run(runs, [&](int64_t run, unsigned) {
    double sum = 0;
    for (int64_t b = run * runBlocks; b < std::min(blocks, (run + 1) * runBlocks); ++b) {
      float block[blockSize];
      decode(values.type, data + static_cast<size_t>(b) * stride, block, blockSize);
      double squares = ops_.sumOfSquares(block, blockSize);
      const double inverse = values.scale ? 1.0 / static_cast<double>(values.scale[b]) : 1.0;
      sum += squares * inverse * inverse;
    }
    partial[static_cast<size_t>(run)] = sum;
  });
  double sum = 0;
  for (double part : partial)
    sum += part;
  return sum;
}

void CpuDevice::gradSquares(const StepTables &tables, std::span<const GradRange> ranges) {
  StepState &state = *tables.state;
  double sum = 0;
  for (const GradRange &range : ranges)
    // A parameter at a time.
    for (int64_t first = 0, next = 0; first < range.blocks; first = next) {
      while (next < range.blocks && range.owner[next] == range.owner[first])
        ++next;
      BlockSpan values{static_cast<const std::byte *>(range.data) + static_cast<size_t>(first * blockSize) * sizeOf(range.type),
          range.type, range.blockScale ? range.blockScale + first : nullptr};
      double squares = sumOfSquares(values, next - first);
      if (!range.blockScale) {
        const double inverse = 1.0 / static_cast<double>(tables.gradScale[range.owner[first]]);
        squares *= inverse * inverse;
      }
      sum += squares;
    }
  // An infinity that a conversion to FP8 saturated shows in the amax that was recorded before it.
  for (uint32_t s = 0; s < tables.sites; ++s)
    if (!std::isfinite(tables.siteAmax[s]))
      sum = std::numeric_limits<double>::quiet_NaN();
  state.sums[0] = sum;
  state.sums[1] = state.lossCount > 0 ? state.lossSum / state.lossCount : 0.0;
}

void CpuDevice::finishNorm(const StepTables &tables, unsigned ranks, double microBatches) {
  double largest = 0;
  for (uint32_t p = 0; p < tables.parameters; ++p)
    largest = std::max(largest, static_cast<double>(tables.weightAmax[p]));
  runtime::finishNorm(*tables.state, ranks, microBatches, largest);
}

void CpuDevice::planScales(const StepTables &tables, const ClassRule &rule) {
  if (tables.state->skipped)
    return;
  const double growth = weightGrowth(*tables.state, rule.sgd);
  for (uint32_t p = 0; p < tables.parameters; ++p)
    if (tables.parameterClass[p] == rule.index)
      runtime::planScales(tables, rule, growth, p);
}

void CpuDevice::commitScales(const StepTables &tables, const ClassRule &rule) {
  if (tables.state->skipped)
    return;
  for (uint32_t p = 0; p < tables.parameters; ++p)
    if (tables.parameterClass[p] == rule.index)
      runtime::commitScales(tables, p);
}

void CpuDevice::calibrate(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) {
  for (size_t i = 0; i < values.size(); ++i)
    calibrateSite(tables, sites[i], *values[i]);
}

void CpuDevice::recordAmax(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) {
  for (size_t i = 0; i < values.size(); ++i)
    recordSite(tables, sites[i], *values[i]);
}

void CpuDevice::storeGradScales(const StepTables &tables, std::span<const float *const> values,
    std::span<const uint32_t> parameters) {
  for (size_t i = 0; i < values.size(); ++i)
    tables.gradScale[parameters[i]] = *values[i];
}

void CpuDevice::pushSites(const StepTables &tables) {
  StepState &state = *tables.state;
  state.saturated = state.nonFinite = state.unused = state.sitesChanged = 0;
  for (uint32_t s = 0; s < tables.sites; ++s) {
    const SitePush push = pushSite(tables, s);
    state.saturated += push.saturated;
    state.nonFinite += push.nonFinite;
    state.unused += push.unused;
    state.sitesChanged |= push.changed;
    state.sitesHaveHistory |= push.learned;
  }
  ++state.siteSteps;
}

void CpuDevice::spreadScales(const float *byParameter, const int32_t *owner, float *byBlock, int64_t blocks) {
  for (int64_t b = 0; b < blocks; ++b)
    byBlock[b] = byParameter[owner[b]];
}

} // namespace msamp::runtime::cpu
