// The arithmetic of a step's control, one entry at a time: the same functions on every device.
#ifndef MSAMP_RUNTIME_DEVICE_STEPRULES_H
#define MSAMP_RUNTIME_DEVICE_STEPRULES_H

#include <cmath>

#include "runtime/core/Scale.h"
#include "runtime/device/StepState.h"

#ifdef __CUDACC__
#define MSAMP_EVERYWHERE __host__ __device__ inline
#else
#define MSAMP_EVERYWHERE inline
#endif

namespace msamp::runtime {

// First: of the first micro-batch of a step; Next: of a later one; Only: of an evaluation, which counts towards no step.
enum class LossUse { First, Next, Only };

MSAMP_EVERYWHERE void noteLoss(StepState &s, float loss, LossUse use) {
  s.lastLoss = loss;
  if (use == LossUse::Only)
    return;
  s.lossSum = (use == LossUse::First ? 0.0 : s.lossSum) + static_cast<double>(loss);
  s.lossCount = (use == LossUse::First ? 0 : s.lossCount) + 1;
}

// What optimizer kernels read in step `t` (from 1): the values themselves, and what each of them would compute anew for every
// weight. `gradFactor`: clip factor over micro-batches.
MSAMP_EVERYWHERE void fillKernelHyper(float *slots, const Hyper &h, double gradFactor, double t, bool skip) {
  const double biasM = 1.0 / (1.0 - pow(h.beta1, t)), biasV = 1.0 / (1.0 - pow(h.beta2, t));
  slots[SlotLr] = static_cast<float>(h.lr);
  slots[SlotBeta1] = static_cast<float>(h.beta1);
  slots[SlotBeta2] = static_cast<float>(h.beta2);
  slots[SlotEps] = static_cast<float>(h.eps);
  slots[SlotWeightDecay] = static_cast<float>(h.weightDecay);
  slots[SlotGradFactor] = static_cast<float>(gradFactor);
  slots[SlotBiasM] = static_cast<float>(biasM);
  slots[SlotBiasV] = static_cast<float>(biasV);
  slots[SlotSkip] = skip ? 1.0f : 0.0f;
  slots[SlotRest1] = static_cast<float>(1.0 - h.beta1);
  slots[SlotRootRest2] = static_cast<float>(sqrt(1.0 - h.beta2));
  slots[SlotRootFactor] = static_cast<float>(sqrt(biasV) / biasM);
  slots[SlotEpsFactor] = static_cast<float>(h.eps / biasM);
}

// Norm, clip factor, skip flag and the optimizer kernels' hyper-parameters from the sums over all ranks. `microBatches`: of
// all ranks in the step; `largestWeight`: largest magnitude among all weights.
MSAMP_EVERYWHERE void finishNorm(StepState &s, unsigned ranks, double microBatches, double largestWeight) {
  const Hyper &h = s.hyper;
  s.loss = s.sums[1] / ranks;
  s.gradNorm = sqrt(s.sums[0]) / microBatches;
  s.skipped = s.gradNorm - s.gradNorm == 0.0 ? 0 : 1; // false for infinities and NaN
  // As torch.nn.utils.clip_grad_norm_.
  const double ratio = h.clip / (s.gradNorm + 1e-6);
  s.clipFactor = h.clip > 0 && !s.skipped && ratio < 1.0 ? ratio : 1.0;
  s.skippedSteps += s.skipped;
  if (!s.skipped) {
    ++s.applied;
    s.momentumBound = h.beta1 * s.momentumBound + s.gradNorm * s.clipFactor + h.weightDecay * largestWeight;
  }
  fillKernelHyper(s.kernelHyper, h, s.clipFactor / microBatches, static_cast<double>(s.applied), s.skipped);
}

// Largest |m / sqrt(v)| that Adam can reach at step t, bias corrections included: by Cauchy and Schwarz over its weights of past
// gradients, (1-b1) b1^i and (1-b2) b2^i.
MSAMP_EVERYWHERE double adamBound(double beta1, double beta2, double t) {
  const double ratio = beta1 * beta1 / beta2;
  const double terms = beta2 == 0 ? 1.0 : ratio == 1.0 ? t : (1.0 - pow(ratio, t)) / (1.0 - ratio);
  const double bound = (1.0 - beta1) * sqrt(terms / (1.0 - beta2)) * sqrt(1.0 - pow(beta2, t)) / (1.0 - pow(beta1, t));
  return bound - bound == 0.0 ? bound : 1.0;
}

// How much a weight can grow in this step: Adam's step is bounded, SGD's by the momentum's bound. A scale for that is known
// before the new weights are, so they are written once; beyond it they would saturate.
MSAMP_EVERYWHERE double weightGrowth(const StepState &s, bool sgd) {
  const Hyper &h = s.hyper;
  return h.lr * (sgd ? s.momentumBound : 1.1 * adamBound(h.beta1, h.beta2, static_cast<double>(s.applied)));
}

// Scales of parameter `p` for the update at hand.
MSAMP_EVERYWHERE void planScales(const StepTables &t, const ClassRule &rule, double growth, uint32_t p) {
  const double decay = t.state->hyper.lr * t.state->hyper.weightDecay;
  const auto bound = static_cast<float>(static_cast<double>(t.weightAmax[p]) * (1.0 + decay) + growth);
  t.newWeightScale[p] = rule.weightScaled ? scaleOf(bound, rule.weightType) : 1.0f;
  t.newMasterScale[p] = rule.masterScaled ? scaleOf(bound, rule.masterType) : 1.0f;
  t.newAmax[p] = 0.0f;
}

MSAMP_EVERYWHERE void commitScales(const StepTables &t, uint32_t p) {
  t.weightAmax[p] = t.newAmax[p];
  t.weightScale[p] = t.newWeightScale[p];
  t.weightInverse[p * inverseStride] = 1.0f / t.newWeightScale[p];
  t.masterScale[p] = t.newMasterScale[p];
}

MSAMP_EVERYWHERE void setSiteScale(const StepTables &t, uint32_t site, float scale) {
  t.siteScale[site] = scale;
  t.siteInverse[site * inverseStride] = 1.0f / scale;
}

// Scale of a site without history from the tensor itself.
MSAMP_EVERYWHERE void calibrateSite(const StepTables &t, uint32_t site, float amax) {
  setSiteScale(t, site, scaleOf(amax, t.siteRules[site].format, t.siteRules[site].margin));
}

// Several uses of a site, or micro-batches: the largest counts; a NaN stays.
MSAMP_EVERYWHERE void recordSite(const StepTables &t, uint32_t site, float amax) {
  const float recorded = t.siteAmax[site];
  t.siteAmax[site] = recorded != recorded || recorded > amax ? recorded : amax;
}

// What a push of one site's amax did.
struct SitePush {
  bool learned, changed, saturated, nonFinite, unused;
};

// Pushes the recorded amax into the history and takes the scale from the history's largest.
MSAMP_EVERYWHERE SitePush pushSite(const StepTables &t, uint32_t site) {
  float *row = t.siteHistory + static_cast<uint64_t>(site) * t.history;
  const uint64_t slot = t.state->siteSteps % t.history;
  const float amax = t.siteAmax[site];
  const SiteRule rule = t.siteRules[site];
  t.siteAmax[site] = -1.0f;
  SitePush push{};
  const bool finite = amax - amax == 0.0f;
  if (finite && amax >= 0)
    row[slot] = amax;
  float largest = row[0];
  for (uint32_t i = 1; i < t.history; ++i)
    largest = row[i] > largest ? row[i] : largest;
  if (!finite || amax < 0) {
    // Nothing to learn from: the largest of the history takes the place of the oldest.
    push.nonFinite = !finite;
    row[slot] = largest;
    return push;
  }
  const float old = t.siteScale[site], scale = scaleOf(largest, rule.format, rule.margin);
  push.learned = true;
  push.unused = amax == 0;
  push.saturated = amax * old > largestOf(rule.format);
  push.changed = scale != old;
  setSiteScale(t, site, scale);
  return push;
}

} // namespace msamp::runtime

#endif
