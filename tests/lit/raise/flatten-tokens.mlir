// RUN: msamp-opt %s --msamp-flatten-tokens | FileCheck %s

// A block's chain and its residual stream have rank 2 from the lookup on.
// CHECK-LABEL: @stream
// CHECK: %[[I:.*]] = msamp.reshape %arg1 : tensor<2x4xi64> -> tensor<8xi64>
// CHECK: %[[X:.*]] = msamp.gather %arg0 at %[[I]] axis = 0 : {{.*}} -> tensor<8x6xf32>
// CHECK: msamp.layer_norm %[[X]] {{.*}} -> tensor<8x6xf32>, tensor<8xf32>, tensor<8xf32>
// CHECK-NOT: tensor<2x4x
// CHECK: msamp.gelu {{.*}} : tensor<8x6xf32>
// CHECK-NOT: tensor<2x4x
// CHECK: %[[S:.*]] = arith.addf %[[X]]
// CHECK: msamp.reshape %[[S]] : tensor<8x6xf32> -> tensor<2x4x6xf32>
// CHECK-NEXT: return
func.func @stream(%table: tensor<9x6xf32>, %ids: tensor<2x4xi64>, %w: tensor<6x6xf32>, %b: tensor<6xf32>) -> tensor<2x4x6xf32> {
  %x = msamp.gather %table at %ids axis = 0 : tensor<9x6xf32>, tensor<2x4xi64> -> tensor<2x4x6xf32>
  %y, %mean, %rstd = msamp.layer_norm %x {eps = 1.0e-5 : f64} : tensor<2x4x6xf32> -> tensor<2x4x6xf32>, tensor<2x4xf32>, tensor<2x4xf32>
  %0 = msamp.reshape %y : tensor<2x4x6xf32> -> tensor<8x6xf32>
  %1 = msamp.matmul %0, %w : tensor<8x6xf32>, tensor<6x6xf32> -> tensor<8x6xf32>
  %2 = msamp.reshape %1 : tensor<8x6xf32> -> tensor<2x4x6xf32>
  %3 = msamp.broadcast %b dims = [2] : tensor<6xf32> -> tensor<2x4x6xf32>
  %4 = arith.addf %2, %3 : tensor<2x4x6xf32>
  %5 = msamp.gelu %4 : tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  %6 = msamp.reshape %5 : tensor<2x4x6xf32> -> tensor<8x6xf32>
  %7 = msamp.matmul %6, %w : tensor<8x6xf32>, tensor<6x6xf32> -> tensor<8x6xf32>
  %8 = msamp.reshape %7 : tensor<8x6xf32> -> tensor<2x4x6xf32>
  %9 = arith.addf %x, %8 : tensor<2x4x6xf32>
  return %9 : tensor<2x4x6xf32>
}
