// Writes plan directories: kernels, weights, constants, graph and plan.pb, all or nothing.
#ifndef MSAMP_CODEGEN_PLANDIRECTORY_H
#define MSAMP_CODEGEN_PLANDIRECTORY_H

#include "codegen/BuildPlan.h"
#include "passes/raise/ParameterValues.h"

#include <functional>
#include <memory>
#include <string>

namespace msamp::codegen {

struct PlanOptions {
  std::string compiler; // name and version
  std::string pipeline; // what made the plan, for people
  bool referenceKernels = false;            // with the CPU's kernels beside those of each GPU, to check them
  std::function<void(const std::string &)> compiling; // told each target before its kernels are compiled
  std::function<bool()> cancelled;          // asked now and then; true ends the work with an error
  std::shared_ptr<ParameterValues> weights; // of the model, where parameters start from its values
};

// Throws runtime::Error if a plan could not be written there: no parent, no permission, or something that is no plan.
void checkDirectory(const std::string &directory);

// Compiles the kernels of a model's scheduled modules, one a target, and writes the plan into `directory`, which is replaced if
// it is a plan already. Nothing is left behind on failure. Throws runtime::Error or frontend::Error. Returns the plan as written.
plan::Plan writePlan(llvm::ArrayRef<TargetModule> modules, const std::string &directory, const PlanOptions &options);

} // namespace msamp::codegen

#endif
