// RUN: not msamp-opt %s --msamp-differentiate 2>&1 | FileCheck %s

// CHECK: the loss depends on no trained parameter, so there is nothing to train
msamp.parameter @w : tensor<2xf32> bias {trained = true}
func.func @forward(%x: tensor<2xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %loss = msamp.reduce sum %x dims = [0] : tensor<2xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
