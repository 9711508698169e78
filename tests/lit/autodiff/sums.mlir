// RUN: msamp-opt %s --msamp-differentiate --canonicalize --cse | FileCheck %s

msamp.parameter @qkv : tensor<4x6xf32> matrix {trained = true}
msamp.parameter @table : tensor<9x6xf32> table {trained = true}
msamp.parameter @unused : tensor<2xf32> bias {trained = true}

// Gradients of slices that cover a tensor are concatenated, holes are zeros; a tied table sums what its uses give.
// CHECK-LABEL: func.func @step
// CHECK-DAG: %[[HOLE:.*]] = arith.constant dense<0.000000e+00> : tensor<4x2xf32>
// CHECK-DAG: %[[UNUSED:.*]] = arith.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK: %[[S:.*]] = msamp.scatter_add %{{.*}} at %arg0 : tensor<4x6xf32>, tensor<4xi64> -> tensor<9x6xf32>
// CHECK: %[[T:.*]] = arith.addf %{{.*}}, %[[S]] : tensor<9x6xf32>
// CHECK-NOT: msamp.pad
// CHECK: %[[D:.*]] = msamp.concat %{{.*}}, %[[HOLE]], %{{.*}} dim = 1 : tensor<4x2xf32>, tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x6xf32>
// CHECK: return %{{.*}}, %[[D]], %[[T]], %[[UNUSED]]
func.func @forward(%ids: tensor<4xi64> {msamp.name = "ids"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w = msamp.get @qkv : tensor<4x6xf32>
  %t = msamp.get @table : tensor<9x6xf32>
  %e = msamp.gather %t at %ids axis = 0 : tensor<9x6xf32>, tensor<4xi64> -> tensor<4x6xf32>
  %y = msamp.matmul %e, %t {transpose_b} : tensor<4x6xf32>, tensor<9x6xf32> -> tensor<4x9xf32>
  %q = msamp.slice %w starts = [0, 0] strides = [1, 1] : tensor<4x6xf32> -> tensor<4x2xf32>
  %k = msamp.slice %w starts = [0, 4] strides = [1, 1] : tensor<4x6xf32> -> tensor<4x2xf32>
  %p = arith.mulf %q, %k : tensor<4x2xf32>
  %a = msamp.reduce sum %p dims = [0, 1] : tensor<4x2xf32> -> tensor<f32>
  %b = msamp.reduce sum %y dims = [0, 1] : tensor<4x9xf32> -> tensor<f32>
  %loss = arith.addf %a, %b : tensor<f32>
  return %loss : tensor<f32>
}
