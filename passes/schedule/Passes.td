// Passes of the schedule phase.
#ifndef MSAMP_SCHEDULE_PASSES_TD
#define MSAMP_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def NoteInputBounds : Pass<"msamp-note-input-bounds", "::mlir::ModuleOp"> {
  let summary = "note the valid range of index inputs";
  let description = [{
    Runs after the loss phase, where gathers and the loss still name what they index. The module attribute
    `msamp.bounds` gives for each integer input that indexes a table, or the classes of a cross-entropy, the exclusive
    upper bound of its values (the smallest one, if there are several).
  }];
}

def LowerToPlan : Pass<"msamp-lower-to-plan", "::mlir::ModuleOp"> {
  let summary = "turn fused functions into programs over memory";
  let description = [{
    Before: functions whose ops are clusters, library calls, views, collectives and symbol accesses. After: one
    plan.program for each function, a plan.kernel for each distinct cluster, a plan.constant for each distinct constant;
    parameters, sites and buckets stay. Buffers have no offsets yet. Views are resolved into strides and offsets; results
    are written straight into outputs, gradients and concatenations where they have no other use; copies are made only
    where a step needs contiguous memory.
  }];
  let dependentDialects = ["::msamp::planir::PlanDialect"];
}

def CalibrateFirst : Pass<"msamp-calibrate-first", "::mlir::ModuleOp"> {
  let summary = "take scales without history from the tensor itself";
  let description = [{
    For each delayed site whose amax a program records: as long as the site has no history, the step that computes the
    amax runs once more before the first step that uses the site's scale, followed by a plan.calibrate. Fails if the amax
    cannot be known before that use.
  }];
  let dependentDialects = ["::msamp::planir::PlanDialect"];
}

def AssignArenas : Pass<"msamp-assign-arenas", "::mlir::ModuleOp"> {
  let summary = "give each buffer a lifetime and an offset in its program's arena";
  let description = [{
    Best fit, largest buffer first: buffers whose lifetimes (in steps, both ends included) do not meet may share bytes.
    Buffers that no step touches are removed.
  }];
  let dependentDialects = ["::msamp::planir::PlanDialect"];
}

def VerifyPlan : Pass<"msamp-verify-plan", "::mlir::ModuleOp"> {
  let summary = "check programs: bounds, lifetimes, overlaps, use before definition";
}

#endif
