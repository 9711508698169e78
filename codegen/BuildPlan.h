// From the Plan dialect to the plan's schema.
#ifndef MSAMP_CODEGEN_BUILDPLAN_H
#define MSAMP_CODEGEN_BUILDPLAN_H

#include "ir/Plan/Plan.h"
#include "runtime/plan/plan.pb.h"

#include <string>

namespace msamp::codegen {

// A module as it was scheduled for a target.
struct TargetModule {
  std::string target; // cpu, or an NVIDIA architecture
  mlir::ModuleOp module;
};

// The plan of scheduled modules, without files: no parts, no digest. Constants have the offsets at which they are to be
// written. Throws runtime::Error: internal if a module contradicts itself, bad data if the modules do not train the same state.
plan::Plan buildPlan(llvm::ArrayRef<TargetModule> modules);

// Symbol of a state class's update kernel.
std::string updateSymbol(llvm::StringRef className);

} // namespace msamp::codegen

#endif
