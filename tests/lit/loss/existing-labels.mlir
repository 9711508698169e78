// An input of the graph that has the name of the labels is used.
// RUN: msamp-opt %s --msamp-add-loss=labels=targets | FileCheck %s

// CHECK: func.func @forward(%arg0: tensor<4xi64> {msamp.labels, msamp.name = "targets"}, %arg1: tensor<4x5xf32> {msamp.name = "x"})
// CHECK: msamp.cross_entropy %arg1, %arg0
func.func @forward(%y: tensor<4xi64> {msamp.name = "targets"}, %x: tensor<4x5xf32> {msamp.name = "x"})
    -> (tensor<4x5xf32> {msamp.name = "logits"}) {
  return %x : tensor<4x5xf32>
}
