// Passes of the optimizer phase.
#ifndef MSAMP_OPTIMIZER_PASSES
#define MSAMP_OPTIMIZER_PASSES

include "mlir/Pass/PassBase.td"

def SplitPrograms : Pass<"msamp-split-programs", "::mlir::ModuleOp"> {
  let summary = "make @micro_step and @eval of @step";
  let description = [{
    `@micro_step` returns the loss alone; `@eval` is a copy that returns loss and outputs and changes no state.
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def BuildUpdate : Pass<"msamp-build-update", "::mlir::ModuleOp"> {
  let summary = "make @update: norm, one fused update a state class, scales";
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "adamw, adam or sgd">,
    Option<"history", "history", "int64_t", "16", "steps of amax history of a delayed site">];
  let dependentDialects = ["::msamp::MsampDialect"];
}

#endif
