// Counts the roundings on the way from the inputs to the outputs and back.
#include "runtime/train/Tolerance.h"

#include "runtime/core/Error.h"

#include <algorithm>
#include <cmath>

namespace msamp::train {
using namespace runtime;

namespace {
struct Roundings {
  int bf16 = 0;       // steps that write BF16 or FP16, be it exactly
  int fp8 = 0;        // GEMMs of FP8 values
  bool kinks = false; // a ReLU, a pool or the like among what is written narrow
};
} // namespace

static Roundings countRoundings(const plan::Target &target, const std::string &program) {
  Roundings count;
  for (const plan::Program &candidate : target.programs()) {
    if (candidate.name() != program)
      continue;
    for (const plan::Step &step : candidate.steps()) {
      bool rounds = false;
      for (const plan::Operand &output : step.outputs())
        rounds |= output.type() == plan::BF16 || output.type() == plan::F16;
      count.bf16 += rounds;
      bool narrow = rounds;
      for (const plan::Operand &output : step.outputs())
        narrow |= output.type() == plan::E4M3;
      if (narrow && step.has_launch() && static_cast<int>(step.launch().kernel()) < target.kernels_size())
        count.kinks |=
            target.kernels(static_cast<int>(step.launch().kernel())).cluster().find("maximumf") != std::string::npos;
      // Where two values of a window are nearer than their errors, its gradient may go to the other one.
      count.kinks |= rounds && step.has_max_pool();
      count.fp8 += step.has_matmul() && step.matmul().fp8_values();
    }
  }
  return count;
}

Tolerances tolerancesOf(const plan::Plan &plan, const plan::Target &target) {
  if (plan.level() == "fp32")
    return {1e-5, 1e-4, 1e-4, "fp32"};
  constexpr double bf16 = 0x1p-8 * 0x1p-8 / 6, e4m3 = 0x1p-4 * 0x1p-4 / 6, e5m2 = 0x1p-3 * 0x1p-3 / 6; // mean squares
  Roundings forward = countRoundings(target, "eval");
  // Forward: both operands of an FP8 GEMM are E4M3. Backward, on the way to the first layer: as many GEMMs again, of an
  // E5M2 gradient and an E4M3 weight; a weight gradient is stored rounded once more.
  double there = forward.bf16 * bf16 + forward.fp8 * 2 * e4m3;
  double back = forward.bf16 * bf16 + forward.fp8 * (e4m3 + e5m2) + (forward.fp8 > 0 ? 2 * e4m3 + e5m2 : bf16);
  double outputs = std::sqrt(there), gradients = there + back;
  // A unit whose input is nearer to the kink than its error passes its gradient where it should not, or does not where
  // it should: of normally distributed inputs a part 2 phi(0) times the relative error.
  if (forward.kinks)
    gradients += 2 * 0.3989 * outputs;
  // So far the errors of tensors whose way damps as much as it amplifies. Norms, softmax and products of small matrices
  // amplify single tensors: by up to 1.7 among the models measured (GPT-2, Llama, BLOOM, BERT, ViT at BF16), so by less
  // than 2.
  constexpr double gain = 2;
  Tolerances result;
  result.outputs = gain * outputs;
  result.gradients = gain * std::sqrt(gradients);
  // The loss is a mean over positions: errors of outputs that do not depend on each other cancel in it, what is left is
  // of second order.
  double positions = std::max<double>(1, static_cast<double>(plan.tokens_per_micro_batch()));
  result.loss = outputs / std::sqrt(positions) + outputs * outputs;
  result.reason =
      fmt::format("{} roundings to 16 bits (u = 2^-8) and {} GEMMs of FP8 operands (u = 2^-4, gradients 2^-3) "
                  "forward, as many back, u^2/6 each in the mean square, times 2 for what norms and softmax amplify{}",
                  forward.bf16, forward.fp8, forward.kinks ? "; gradients that cross the kink of a ReLU" : "");
  return result;
}

} // namespace msamp::train
