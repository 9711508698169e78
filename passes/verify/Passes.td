// Verification between phases.
#ifndef MSAMP_VERIFY_PASSES
#define MSAMP_VERIFY_PASSES

include "mlir/Pass/PassBase.td"

def VerifyPhase : Pass<"msamp-verify-phase", "::mlir::ModuleOp"> {
  let summary = "check what the IR has to be after a phase";
  let description = [{
    Fails, with the op and what was expected, if the module is not what the phases after `phase` rely on. Changes nothing.
    For example, after autodiff:

    ```mlir
    func.func @step(...) -> (tensor<f32> {msamp.name = "loss"}, ..., tensor<8x2xf32> {msamp.grad = @w})
    ```
    must have one gradient for each trained parameter, of the parameter's type.
  }];
  let options = [Option<"phase", "phase", "std::string", "\"import\"", "name of the phase that has just run">];
}

#endif
