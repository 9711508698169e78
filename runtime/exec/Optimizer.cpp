// The update: norm, clipping, optimizer kernels, scales of weights, delayed scales.
#include <algorithm>
#include <cmath>

#include "runtime/core/Error.h"
#include "runtime/core/Scale.h"
#include "runtime/exec/ExecutorImpl.h"

namespace msamp::runtime {

void ExecutorImpl::gradNorm(Control &control) {
  double sum = 0;
  // Always over this rank's own shards, so that ZeRO 0 and 1 add in the same order.
  for (const BucketLayout &bucket : state_.buckets) {
    const ClassState &state = state_.classes[bucket.stateClass];
    if (!state.grad)
      continue;
    for (const OwnedRange &run : intersect(bucket.owners, bucket.shards[comm_.rank()])) {
      BlockSpan values{state.grad + static_cast<size_t>(run.blocks.first * blockSize) * sizeOf(state.gradType), state.gradType,
          state.gradScale ? state.gradScale + run.blocks.first : nullptr};
      double squares = device_.sumOfSquares(values, run.blocks.count);
      if (!state.gradScale) {
        const double inverse = 1.0 / static_cast<double>(state_.gradScale[run.parameter]);
        squares *= inverse * inverse;
      }
      sum += squares;
    }
  }
  // An infinity that a conversion to FP8 saturated shows in the amax that was recorded before it.
  for (int s = 0; s < plan_.sites_size(); ++s)
    if (!std::isfinite(state_.siteAmax[s]))
      sum = std::nan("");
  double sums[2] = {sum, lossCount_ > 0 ? lossSum_ / lossCount_ : 0.0};
  comm_.allReduceSum(sums);

  const double count = static_cast<double>(comm_.size()) * std::max(1u, plan_.accumulate());
  StepResult &result = control.result;
  result.loss = sums[1] / comm_.size();
  result.gradNorm = std::sqrt(sums[0]) / count;
  result.skipped = !std::isfinite(result.gradNorm);
  const double clip = control.hyper ? control.hyper->clip : 0;
  // As torch.nn.utils.clip_grad_norm_.
  result.clipFactor = clip > 0 && !result.skipped ? std::min(1.0, clip / (result.gradNorm + 1e-6)) : 1.0;
  if (result.skipped)
    return;
  ++applied_;
  if (!control.hyper)
    return;
  double largestWeight = 0;
  for (int p = 0; p < plan_.parameters_size(); ++p)
    largestWeight = std::max(largestWeight, static_cast<double>(state_.weightAmax[p]));
  momentumBound_ = control.hyper->beta1 * momentumBound_ + result.gradNorm * result.clipFactor +
                   control.hyper->weightDecay * largestWeight;
}

// Largest |m / sqrt(v)| that Adam can reach at step t, bias corrections included: by Cauchy and Schwarz over its weights of past
// gradients, (1-b1) b1^i and (1-b2) b2^i.
static double adamBound(double beta1, double beta2, double t) {
  const double ratio = beta1 * beta1 / beta2;
  const double terms = beta2 == 0 ? 1.0 : ratio == 1.0 ? t : (1.0 - std::pow(ratio, t)) / (1.0 - ratio);
  const double bound = (1.0 - beta1) * std::sqrt(terms / (1.0 - beta2)) * std::sqrt(1.0 - std::pow(beta2, t)) /
                       (1.0 - std::pow(beta1, t));
  return std::isfinite(bound) ? bound : 1.0;
}

void ExecutorImpl::updateClass(unsigned index, const std::string &optimizer, Control &control) {
  if (control.result.skipped)
    return;
  if (!control.hyper)
    failInternal("an update without hyper-parameters");
  const Hyper &h = *control.hyper;
  ClassState &state = state_.classes[index];
  const double count = static_cast<double>(comm_.size()) * std::max(1u, plan_.accumulate());
  const auto t = static_cast<double>(applied_);
  UpdateHyper hyper{};
  hyper[0] = static_cast<float>(h.lr);
  hyper[1] = static_cast<float>(h.beta1);
  hyper[2] = static_cast<float>(h.beta2);
  hyper[3] = static_cast<float>(h.eps);
  hyper[4] = static_cast<float>(h.weightDecay);
  hyper[5] = static_cast<float>(control.result.clipFactor / count);
  hyper[6] = static_cast<float>(1.0 / (1.0 - std::pow(h.beta1, t)));
  hyper[7] = static_cast<float>(1.0 / (1.0 - std::pow(h.beta2, t)));

  // How much a weight can grow in this step: Adam's step is bounded, SGD's by the momentum's bound. A scale for that is
  // known before the new weights are, so they are written once; beyond it they would saturate.
  const double growth = h.lr * (optimizer == "sgd" ? momentumBound_ : 1.1 * adamBound(h.beta1, h.beta2, t));
  std::vector<float> newWeightScale(static_cast<size_t>(plan_.parameters_size()), 1.0f), newMasterScale = newWeightScale,
      newAmax(newWeightScale.size(), 0.0f);
  for (int p = 0; p < plan_.parameters_size(); ++p) {
    if (plan_.parameters(p).state_class() != index)
      continue;
    const auto bound = static_cast<float>(static_cast<double>(state_.weightAmax[p]) * (1.0 + h.lr * h.weightDecay) + growth);
    if (state.weightScaled)
      newWeightScale[static_cast<size_t>(p)] = scaleOf(bound, state.weightType);
    if (state.masterScaled)
      newMasterScale[static_cast<size_t>(p)] = scaleOf(bound, state.masterType);
  }

  for (const BucketLayout &bucket : state_.buckets) {
    if (bucket.stateClass != index)
      continue;
    const BlockRange range = state_.sharded() ? bucket.shards[comm_.rank()] : bucket.blocks;
    if (range.count == 0)
      continue;
    const int64_t local = state_.sharded() ? bucket.localFirst : range.first;
    auto at = [](std::byte *base, Type type, int64_t block) {
      return base ? base + static_cast<size_t>(block * blockSize) * sizeOf(type) : nullptr;
    };
    UpdateArgs args;
    args.weight = at(state.weight, state.weightType, range.first);
    args.weightType = state.weightType;
    args.weightScaled = state.weightScaled;
    args.master = at(state.master, state.masterType, local);
    args.masterType = state.masterType;
    args.masterScaled = state.masterScaled;
    args.grad = at(state.grad, state.gradType, range.first);
    args.gradType = state.gradType;
    args.gradBlockScale = state.gradScale ? state.gradScale + range.first : nullptr;
    args.m = at(state.m, state.mType, local);
    args.mType = state.mType;
    args.mBlockScale = state.mScale ? state.mScale + local : nullptr;
    args.v = at(state.v, state.vType, local);
    args.vType = state.vType;
    args.vBlockScale = state.vScale ? state.vScale + local : nullptr;
    const std::vector<OwnedRange> runs = intersect(bucket.owners, range);
    std::vector<UpdateSegment> segments;
    for (const OwnedRange &run : runs) {
      UpdateSegment segment;
      segment.firstBlock = run.blocks.first - range.first;
      segment.blocks = run.blocks.count;
      segment.gradScale = state_.gradScale[run.parameter];
      segment.weightOldScale = state_.weightScale[run.parameter];
      segment.weightNewScale = newWeightScale[run.parameter];
      segment.masterOldScale = state_.masterScale[run.parameter];
      segment.masterNewScale = newMasterScale[run.parameter];
      segments.push_back(segment);
    }
    std::vector<float> amax(segments.size());
    device_.update(updateKernels_[index], args, segments, hyper, amax);
    for (size_t i = 0; i < runs.size(); ++i)
      newAmax[runs[i].parameter] = std::max(newAmax[runs[i].parameter], amax[i]);
  }
  if (state_.sharded())
    comm_.allReduceMax(newAmax);
  for (int p = 0; p < plan_.parameters_size(); ++p) {
    if (plan_.parameters(p).state_class() != index)
      continue;
    state_.weightAmax[p] = newAmax[static_cast<size_t>(p)];
    state_.weightScale[p] = newWeightScale[static_cast<size_t>(p)];
    state_.masterScale[p] = newMasterScale[static_cast<size_t>(p)];
  }
}

void ExecutorImpl::calibrate(const BoundStep &step) {
  if (sitesHaveHistory_)
    return;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const unsigned index = step.step->calibrate().sites(static_cast<int>(i));
    const plan::Site &site = plan_.sites(static_cast<int>(index));
    state_.siteScale[index] = scaleOf(*reinterpret_cast<const float *>(step.inputs[i].data),
        static_cast<Type>(site.format()), static_cast<int>(site.margin()));
  }
}

void ExecutorImpl::recordAmax(const BoundStep &step) {
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    float &recorded = state_.siteAmax[step.step->record_amax().sites(static_cast<int>(i))];
    const float amax = *reinterpret_cast<const float *>(step.inputs[i].data);
    recorded = std::isnan(recorded) || recorded > amax ? recorded : amax;
  }
}

void ExecutorImpl::updateSites(Control &control) {
  const auto sites = static_cast<size_t>(plan_.sites_size()), history = std::max<size_t>(1, plan_.history());
  if (sites == 0)
    return;
  comm_.allReduceMax({state_.siteAmax, sites});
  health_.saturated = health_.nonFinite = health_.unused = 0;
  const size_t slot = siteSteps_ % history;
  for (size_t s = 0; s < sites; ++s) {
    float *row = state_.siteHistory + s * history;
    const float amax = state_.siteAmax[s];
    const plan::Site &site = plan_.sites(static_cast<int>(s));
    const auto format = static_cast<Type>(site.format());
    state_.siteAmax[s] = -1.0f;
    if (!std::isfinite(amax) || amax < 0) {
      // Nothing to learn from: the largest of the history takes the place of the oldest.
      health_.nonFinite += !std::isfinite(amax);
      row[slot] = *std::max_element(row, row + history);
      continue;
    }
    health_.unused += amax == 0;
    health_.saturated += amax * state_.siteScale[s] > largestOf(format);
    row[slot] = amax;
    const float scale = scaleOf(*std::max_element(row, row + history), format, static_cast<int>(site.margin()));
    control.sitesChanged |= scale != state_.siteScale[s];
    state_.siteScale[s] = scale;
    sitesHaveHistory_ = true;
  }
  ++siteSteps_;
}

} // namespace msamp::runtime
