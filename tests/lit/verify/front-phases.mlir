// RUN: split-file %s %t
// RUN: not msamp-opt %t/import.mlir --msamp-verify-phase=phase=import 2>&1 | FileCheck %t/import.mlir
// RUN: not msamp-opt %t/raise.mlir --msamp-verify-phase=phase=raise 2>&1 | FileCheck %t/raise.mlir
// RUN: not msamp-opt %t/loss.mlir --msamp-verify-phase=phase=loss 2>&1 | FileCheck %t/loss.mlir
// RUN: not msamp-opt %t/autodiff.mlir --msamp-verify-phase=phase=autodiff 2>&1 | FileCheck %t/autodiff.mlir

//--- import.mlir
// CHECK: error: argument 0 has no msamp.name
func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32> {msamp.name = "y"}) {
  return %x : tensor<4xf32>
}

//--- raise.mlir
// CHECK: error: transpose of a transpose is left after raise
func.func @forward(%x: tensor<4x3xf32> {msamp.name = "x"}) -> (tensor<4x3xf32> {msamp.name = "y"}) {
  %0 = msamp.transpose %x perm = [1, 0] : tensor<4x3xf32> -> tensor<3x4xf32>
  %1 = msamp.transpose %0 perm = [1, 0] : tensor<3x4xf32> -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

//--- loss.mlir
// CHECK: error: first result is not the loss
func.func @forward(%x: tensor<f32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "y"}) {
  return %x : tensor<f32>
}

//--- autodiff.mlir
// CHECK: error: trained parameter has no gradient among the results of @step
msamp.parameter @w : tensor<8x6xf32> matrix {trained = true}
func.func @step(%x: tensor<f32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  return %x : tensor<f32>
}
