// Passes of the recompute phase.
#ifndef MSAMP_RECOMPUTE_PASSES
#define MSAMP_RECOMPUTE_PASSES

include "mlir/Pass/PassBase.td"

def RebuildActivations : Pass<"msamp-rebuild-activations", "::mlir::ModuleOp"> {
  let summary = "rebuild chosen activations in the backward instead of keeping them";
  let description = [{
    `selective` clones ops that cost no GEMM and whose sources are kept anyway (pointwise, gelu, swiglu, broadcasts, and
    norms from their kept statistics) next to their uses in the backward. `full` also rebuilds the rest of a block from
    its first value (the residual stream), keeping only the inputs of blocks and the results of attention. `none` keeps
    all. Clones carry the location fused<"recompute">[node].

    Before:
    ```mlir
    %h = msamp.matmul %x, %w1 : ...
    %g = msamp.gelu %h : tensor<64x256xf32> -> tensor<64x256xf32>
    ...
    %dw2 = msamp.matmul %g, %dy {transpose_a} : ...      // keeps %g and %h
    %dh = msamp.gelu_grad %dg, %h : ...
    ```
    After:
    ```mlir
    %g1 = msamp.gelu %h : tensor<64x256xf32> -> tensor<64x256xf32>
    %dw2 = msamp.matmul %g1, %dy {transpose_a} : ...     // keeps %h only
    ```
  }];
  let options = [Option<"mode", "mode", "std::string", "\"selective\"", "none, selective or full">];
  let dependentDialects = ["::msamp::MsampDialect"];
}

#endif
