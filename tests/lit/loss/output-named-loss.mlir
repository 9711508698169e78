// Two outputs cannot both be the loss.
// RUN: not msamp-opt %s --msamp-add-loss 2>&1 | FileCheck %s
// RUN: msamp-opt %s --msamp-add-loss=loss=output:loss | FileCheck %s --check-prefix=OWN

// CHECK: an output of the graph is called 'loss', as the loss to train on is; train on that one with --loss output:loss
// OWN: -> (tensor<f32> {msamp.name = "loss"}, tensor<4x5xf32> {msamp.name = "logits"})
func.func @forward(%x: tensor<4x5xf32> {msamp.name = "x"}) -> (tensor<4x5xf32> {msamp.name = "logits"}, tensor<f32> {msamp.name = "loss"}) {
  %0 = msamp.reduce sum %x dims = [0, 1] : tensor<4x5xf32> -> tensor<f32>
  return %x, %0 : tensor<4x5xf32>, tensor<f32>
}
