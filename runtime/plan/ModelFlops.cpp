#include "runtime/plan/ModelFlops.h"

#include "runtime/plan/StepTraits.h"

namespace msamp::runtime {

double modelFlops(const plan::Target &target) {
  // The eval program is the forward alone; a plan without one has it at the front of the micro-step.
  const plan::Program *forward = nullptr;
  for (const plan::Program &program : target.programs())
    if (program.name() == "eval" || (program.name() == "micro_step" && !forward))
      forward = &program;
  double flops = 0;
  if (forward)
    for (const plan::Step &step : forward->steps())
      if (const StepKind kind = kindOf(step);
          !step.backward() && (kind == StepKind::Gemm || kind == StepKind::Convolution || kind == StepKind::Attention))
        flops += static_cast<double>(step.flops());
  return 3 * flops;
}

} // namespace msamp::runtime
