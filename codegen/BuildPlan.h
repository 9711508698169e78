// From the Plan dialect to the plan's schema.
#ifndef MSAMP_CODEGEN_BUILDPLAN_H
#define MSAMP_CODEGEN_BUILDPLAN_H

#include "ir/Plan/Plan.h"
#include "runtime/plan/plan.pb.h"

namespace msamp::codegen {

// The plan of a scheduled module, without files: no parts, no digest. Constants have the offsets at which they are to
// be written. Throws runtime::Error (internal) if the module contradicts itself.
plan::Plan buildPlan(mlir::ModuleOp module);

// Symbol of a state class's update kernel.
std::string updateSymbol(llvm::StringRef className);

} // namespace msamp::codegen

#endif
