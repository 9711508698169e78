// The floating-point operations of a training step that the model asks for, whatever the plan does to save memory.
#ifndef MSAMP_RUNTIME_PLAN_MODELFLOPS_H
#define MSAMP_RUNTIME_PLAN_MODELFLOPS_H

#include "runtime/plan/plan.pb.h"

namespace msamp::runtime {

// Of one micro-batch: three times those of the products of its forward, as the backward has two for each. A product of
// [M, K] and [K, N] counts 2 M N K; attention its two products, of which a causal mask leaves half; a convolution a product
// for each window. What is computed again in the backward is not counted, nor is pointwise work. For a GPT this is
// 6 N + 6 L d T a token, with N the parameters of its matrices, L layers of width d, and T the length of a sequence.
double modelFlops(const plan::Target &target);

} // namespace msamp::runtime

#endif
