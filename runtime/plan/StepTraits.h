// What a step of a plan is, for tables and traces: its kind, its shape in a few words, its work.
#ifndef MSAMP_RUNTIME_PLAN_STEPTRAITS_H
#define MSAMP_RUNTIME_PLAN_STEPTRAITS_H

#include "runtime/core/Types.h"
#include "runtime/plan/plan.pb.h"

#include <cstdint>
#include <string>

namespace msamp::runtime {

enum class StepKind { Gemm, Convolution, Attention, RowKernel, Optimizer, Collective };
inline constexpr size_t stepKindCount = 6;
constexpr std::string_view nameOf(StepKind kind) {
  constexpr std::string_view names[] = {"GEMM", "convolution", "attention", "row kernels", "optimizer", "collectives"};
  return names[static_cast<size_t>(kind)];
}

StepKind kindOf(const plan::Step &step);

// Name of its field in the schema: "matmul", "launch", ..
std::string fieldOf(const plan::Step &step);

// The same for steps that do the same work: "matmul 2048x128x384 e4m3 e4m3 -> bf16", "kernel4 [2048x128 bf16 -> ..]".
std::string shapeOf(const plan::Plan &plan, const plan::Step &step);

// Bytes read and written on one of `ranks`. The plan counts those of a step's operands; those of the optimizer follow from the
// state classes.
uint64_t bytesOf(const plan::Plan &plan, const plan::Step &step, unsigned ranks);

// The narrowest type that a product multiplies.
Type operandType(const plan::Step &step);

} // namespace msamp::runtime

#endif
