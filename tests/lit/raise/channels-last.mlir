// RUN: msamp-opt %s --msamp-simplify-layout | FileCheck %s

// Between convolutions, pools, norms and sums over positions, images stay with their channels last: of the transposes around
// each of them only the first is left.
// CHECK-LABEL: @block
// CHECK: %[[X:.*]] = msamp.transpose %arg0 perm = [0, 2, 3, 1]
// CHECK: %[[Y:.*]] = msamp.conv %[[X]], %arg1
// CHECK: %[[S:.*]] = msamp.broadcast %arg3 dims = [3] : tensor<4xf32> -> tensor<2x8x8x4xf32>
// CHECK: %[[N:.*]] = arith.mulf %[[Y]], %[[S]]
// CHECK: %[[A:.*]] = arith.addf %[[N]], %[[Y]]
// CHECK: %[[M:.*]], %{{.*}} = msamp.max_pool %[[A]]
// CHECK: %[[P:.*]] = msamp.pad %[[M]] low = [0, 1, 0, 0]
// CHECK: %[[Z:.*]] = msamp.conv %[[P]], %arg2
// CHECK: %[[R:.*]] = msamp.reduce sum %[[Z]] dims = [1, 2] : tensor<2x3x2x4xf32> -> tensor<2x4xf32>
// CHECK-NOT: msamp.transpose
// CHECK: return %[[R]]
func.func @block(%x: tensor<2x4x8x8xf32>, %f: tensor<4x3x3x4xf32>, %g: tensor<4x3x3x4xf32>, %s: tensor<4xf32>) -> tensor<2x4xf32> {
  %0 = msamp.transpose %x perm = [0, 2, 3, 1] : tensor<2x4x8x8xf32> -> tensor<2x8x8x4xf32>
  %1 = msamp.conv %0, %f <[3, 3] by [1, 1] low [1, 1] high [1, 1] dilated [1, 1]> groups 1
      : tensor<2x8x8x4xf32>, tensor<4x3x3x4xf32> -> tensor<2x8x8x4xf32>
  %2 = msamp.transpose %1 perm = [0, 3, 1, 2] : tensor<2x8x8x4xf32> -> tensor<2x4x8x8xf32>
  %3 = msamp.broadcast %s dims = [1] : tensor<4xf32> -> tensor<2x4x8x8xf32>
  %4 = arith.mulf %2, %3 : tensor<2x4x8x8xf32>
  %5 = arith.addf %4, %2 : tensor<2x4x8x8xf32>
  %6 = msamp.transpose %5 perm = [0, 2, 3, 1] : tensor<2x4x8x8xf32> -> tensor<2x8x8x4xf32>
  %7, %tap = msamp.max_pool %6 <[3, 3] by [2, 2] low [1, 1] high [1, 1] dilated [1, 1]>
      : tensor<2x8x8x4xf32> -> tensor<2x4x4x4xf32>, tensor<2x4x4x4xui8>
  %8 = msamp.transpose %7 perm = [0, 3, 1, 2] : tensor<2x4x4x4xf32> -> tensor<2x4x4x4xf32>
  %9 = msamp.pad %8 low = [0, 0, 1, 0] strides = [1, 1, 1, 1] : tensor<2x4x4x4xf32> -> tensor<2x4x5x4xf32>
  %10 = msamp.transpose %9 perm = [0, 2, 3, 1] : tensor<2x4x5x4xf32> -> tensor<2x5x4x4xf32>
  %11 = msamp.conv %10, %g <[3, 3] by [1, 1] low [0, 0] high [0, 0] dilated [1, 1]> groups 1
      : tensor<2x5x4x4xf32>, tensor<4x3x3x4xf32> -> tensor<2x3x2x4xf32>
  %12 = msamp.transpose %11 perm = [0, 3, 1, 2] : tensor<2x3x2x4xf32> -> tensor<2x4x3x2xf32>
  %13 = msamp.reduce sum %12 dims = [2, 3] : tensor<2x4x3x2xf32> -> tensor<2x4xf32>
  return %13 : tensor<2x4xf32>
}

// Dimensions that are left in another order keep it.
// CHECK-LABEL: @turned
// CHECK: %[[R:.*]] = msamp.reduce max %arg0 dims = [1] : tensor<2x3x4xf32> -> tensor<2x4xf32>
// CHECK: msamp.transpose %[[R]] perm = [1, 0]
func.func @turned(%x: tensor<2x3x4xf32>) -> tensor<4x2xf32> {
  %0 = msamp.transpose %x perm = [2, 1, 0] : tensor<2x3x4xf32> -> tensor<4x3x2xf32>
  %1 = msamp.reduce max %0 dims = [1] : tensor<4x3x2xf32> -> tensor<4x2xf32>
  return %1 : tensor<4x2xf32>
}
