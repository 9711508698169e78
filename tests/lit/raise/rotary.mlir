// RUN: msamp-opt %s --msamp-raise-rotary | FileCheck %s

// CHECK-LABEL: @rotary
// CHECK: %[[Y:.*]] = msamp.rotary %arg0, %arg1, %arg2
// CHECK: return %[[Y]]
func.func @rotary(%x: tensor<2x32x4x16xf32>, %cos: tensor<2x32x4x16xf32>, %sin: tensor<2x32x4x16xf32>) -> tensor<2x32x4x16xf32> {
  %0 = arith.mulf %x, %cos : tensor<2x32x4x16xf32>
  %1 = msamp.slice %x starts = [0, 0, 0, 0] strides = [1, 1, 1, 1] : tensor<2x32x4x16xf32> -> tensor<2x32x4x8xf32>
  %2 = msamp.slice %x starts = [0, 0, 0, 8] strides = [1, 1, 1, 1] : tensor<2x32x4x16xf32> -> tensor<2x32x4x8xf32>
  %3 = arith.negf %2 : tensor<2x32x4x8xf32>
  %4 = msamp.concat %3, %1 dim = 3 : tensor<2x32x4x8xf32>, tensor<2x32x4x8xf32> -> tensor<2x32x4x16xf32>
  %5 = arith.mulf %4, %sin : tensor<2x32x4x16xf32>
  %6 = arith.addf %0, %5 : tensor<2x32x4x16xf32>
  return %6 : tensor<2x32x4x16xf32>
}

// Halves in the other order turn the other way: not this op.
// CHECK-LABEL: @other_way
// CHECK-NOT: msamp.rotary
func.func @other_way(%x: tensor<4x16xf32>, %cos: tensor<4x16xf32>, %sin: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %0 = arith.mulf %x, %cos : tensor<4x16xf32>
  %1 = msamp.slice %x starts = [0, 0] strides = [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  %2 = msamp.slice %x starts = [0, 8] strides = [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  %3 = arith.negf %1 : tensor<4x8xf32>
  %4 = msamp.concat %2, %3 dim = 1 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x16xf32>
  %5 = arith.mulf %4, %sin : tensor<4x16xf32>
  %6 = arith.addf %0, %5 : tensor<4x16xf32>
  return %6 : tensor<4x16xf32>
}
