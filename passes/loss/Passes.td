// Passes of the loss phase.
#ifndef MSAMP_LOSS_PASSES
#define MSAMP_LOSS_PASSES

include "mlir/Pass/PassBase.td"

def AddLoss : Pass<"msamp-add-loss", "::mlir::ModuleOp"> {
  let summary = "make @forward return a scalar loss first";
  let description = [{
    `cross-entropy`: mean over all positions of the first output, [.., classes], against the integer input `labels`
    [..]; positions labelled -100 do not count. `mse`: mean squared difference to `labels` of the output's shape. `bce`:
    mean binary cross-entropy of logits against `labels` in [0, 1]. `output:NAME`: that output of the graph, which has
    one element. An input that already has the name of the labels is used, otherwise one is added. Nothing is shifted.
    The module's attribute `msamp.loss` says which it was.

    Before:
    ```mlir
    func.func @forward(%ids: tensor<2x32xi64> {msamp.name = "input_ids"})
        -> (tensor<2x32x320xf32> {msamp.name = "logits"})
    ```
    After:
    ```mlir
    func.func @forward(%ids: tensor<2x32xi64> {msamp.name = "input_ids"},
        %labels: tensor<2x32xi64> {msamp.labels, msamp.name = "labels"})
        -> (tensor<f32> {msamp.name = "loss"}, tensor<2x32x320xf32> {msamp.name = "logits"}) {
      ...
      %rows = msamp.reshape %logits : tensor<2x32x320xf32> -> tensor<64x320xf32>
      %targets = msamp.reshape %labels : tensor<2x32xi64> -> tensor<64xi64>
      %loss, %lse, %valid = msamp.cross_entropy %rows, %targets {ignore_index = -100 : i64} : ...
    ```
  }];
  let options = [
    Option<"loss", "loss", "std::string", "\"cross-entropy\"", "cross-entropy, mse, bce or output:NAME">,
    Option<"labels", "labels", "std::string", "\"labels\"", "name of the input with the targets">];
  let dependentDialects = ["::msamp::MsampDialect"];
}

#endif
