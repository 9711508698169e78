// What a training step needs to know beside its tensors, in device memory: hyper-parameters, losses, norm, tables of scales.
// It stays there, so that the host neither waits nor decides anything within a step.
#ifndef MSAMP_RUNTIME_DEVICE_STEPSTATE_H
#define MSAMP_RUNTIME_DEVICE_STEPSTATE_H

#include <cstdint>

#include "runtime/core/Types.h"

namespace msamp::runtime {

// What an optimizer step needs besides the plan.
struct Hyper {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weightDecay = 0.1;
  double clip = 1.0; // largest norm of the mean gradient; 0: no clipping
};

// Slots of StepState::kernelHyper, which optimizer kernels read (UpdateHyper of codegen/kernel/UpdateMath.h); the rest is 0.
enum HyperSlot : unsigned { SlotLr, SlotBeta1, SlotBeta2, SlotEps, SlotWeightDecay, SlotGradFactor, SlotBiasM, SlotBiasV, SlotSkip,
  SlotRest1, SlotRootRest2, SlotRootFactor, SlotEpsFactor, HyperSlots = 16 };

struct StepState {
  Hyper hyper; // written by the host before an update
  // Of the micro-batches since the last update.
  double lossSum = 0;
  uint32_t lossCount = 0;
  float lastLoss = 0;
  // Of the gradients at hand.
  double sums[2] = {}; // squares of the gradients, mean loss; summed over the ranks
  double loss = 0, gradNorm = 0, clipFactor = 1;
  uint32_t skipped = 0; // a gradient is not finite: nothing is updated
  float kernelHyper[HyperSlots] = {};
  // Of the run.
  uint64_t applied = 0, skippedSteps = 0;
  double momentumBound = 0;  // of SGD: largest magnitude that a momentum can have
  uint64_t siteSteps = 0;    // pushes into the amax histories
  uint32_t sitesHaveHistory = 0, sitesChanged = 0;
  uint32_t saturated = 0, nonFinite = 0, unused = 0; // sites, at the last push
};

struct SiteRule {
  Type format = Type::E4M3;
  int32_t margin = 0; // powers of two that the scale stays below the format's range
};

inline constexpr uint32_t inverseStride = 4;

// The tables of a step; all pointers are to device memory.
struct StepTables {
  StepState *state = nullptr;
  // By parameter. The new ones are those of the update at hand.
  float *weightScale = nullptr, *weightAmax = nullptr, *masterScale = nullptr, *gradScale = nullptr;
  float *newWeightScale = nullptr, *newMasterScale = nullptr, *newAmax = nullptr;
  const int32_t *parameterClass = nullptr;
  uint32_t parameters = 0;
  // By site; histories are rows of `history` values. An amax of -1: nothing recorded.
  float *siteScale = nullptr, *siteAmax = nullptr, *siteHistory = nullptr;
  // 1 / scale of each site and stored weight, for libraries that multiply by what we divide by; entry i at i * inverseStride,
  // since they want addresses that are multiples of 16.
  float *siteInverse = nullptr, *weightInverse = nullptr;
  const SiteRule *siteRules = nullptr;
  uint32_t sites = 0, history = 1;
};

// What planning the scales of a state class takes.
struct ClassRule {
  int32_t index = 0;
  Type weightType = Type::None, masterType = Type::None;
  bool weightScaled = false, masterScaled = false;
  bool sgd = false;
};

} // namespace msamp::runtime

#endif
