// Passes of the autodiff phase.
#ifndef MSAMP_AUTODIFF_PASSES
#define MSAMP_AUTODIFF_PASSES

include "mlir/Pass/PassBase.td"

def Differentiate : Pass<"msamp-differentiate", "::mlir::ModuleOp"> {
  let summary = "append the gradient of the loss to @forward, which becomes @step";
  let description = [{
    Reverse mode over the ops that lie between a trained parameter and the loss, by their DifferentiableOpInterface. All
    ops there that have no rule are reported, each with its ONNX node, before anything changes. A value with several
    uses gets the balanced sum of their gradients in a fixed order; where the uses are slices that cover it, one
    concatenation.
    A parameter that does not reach the loss gets zeros and a remark.

    Before:
    ```mlir
    func.func @forward(%x: tensor<4x8xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
      %w = msamp.get @w : tensor<8x2xf32>
      %y = msamp.matmul %x, %w : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
      %loss = msamp.reduce sum %y dims = [0, 1] : tensor<4x2xf32> -> tensor<f32>
    ```
    After:
    ```mlir
    func.func @step(%x: tensor<4x8xf32> {msamp.name = "x"})
        -> (tensor<f32> {msamp.name = "loss"}, tensor<8x2xf32> {msamp.grad = @w}) {
      ...
      %dy = arith.constant dense<1.0> : tensor<4x2xf32>
      %dw = msamp.matmul %x, %dy {transpose_a} : tensor<4x8xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
    ```
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

#endif
