// RUN: msamp-opt %s --msamp-rewrite-reductions --msamp-form-clusters | FileCheck %s

// Groups of channels of an image that has its channels last: no loop nest takes their sums through the view, so the image is turned
// in memory first.
// CHECK-LABEL: func.func @groups
// CHECK: msamp.transpose %{{.*}} perm = [0, 3, 1, 2] {msamp.stored}
// CHECK: msamp.reduce sum %{{.*}} dims = [2] : tensor<4x3x32xf32> -> tensor<4x3xf32>
func.func @groups(%x: tensor<4x4x4x6xf32> {msamp.name = "x"}) -> tensor<4x3xf32> {
  %0 = msamp.transpose %x perm = [0, 3, 1, 2] : tensor<4x4x4x6xf32> -> tensor<4x6x4x4xf32>
  %1 = msamp.reshape %0 : tensor<4x6x4x4xf32> -> tensor<4x3x32xf32>
  %2 = msamp.reduce sum %1 dims = [2] : tensor<4x3x32xf32> -> tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}

// What is kept lies between what is summed: first rows, then their sums.
// CHECK-LABEL: func.func @channels
// CHECK-NOT: msamp.stored
// CHECK: msamp.reduce sum %{{.*}} dims = [2, 3] : tensor<4x6x4x4xf32> -> tensor<4x6xf32>
// CHECK: msamp.reduce sum %{{.*}} dims = [0] : tensor<4x6xf32> -> tensor<6xf32>
func.func @channels(%x: tensor<4x6x4x4xf32> {msamp.name = "x"}) -> tensor<6xf32> {
  %0 = msamp.reduce sum %x dims = [0, 2, 3] : tensor<4x6x4x4xf32> -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// Rows and columns are taken as they lie.
// CHECK-LABEL: func.func @columns
// CHECK: msamp.reduce max %{{.*}} dims = [0, 1, 2] : tensor<4x4x4x6xf32> -> tensor<6xf32>
func.func @columns(%x: tensor<4x4x4x6xf32> {msamp.name = "x"}) -> tensor<6xf32> {
  %0 = msamp.reduce max %x dims = [0, 1, 2] : tensor<4x4x4x6xf32> -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// Of an image that has each value twice a row is many short ones: it is written first.
// CHECK-LABEL: func.func @repeated
// CHECK: msamp.broadcast
// CHECK: msamp.reshape %{{.*}} {msamp.in_memory} : tensor<2x10x6x2xf32> -> tensor<2x120xf32>
// CHECK: msamp.cluster
// CHECK-NEXT: ^bb0
// CHECK-NEXT: msamp.reduce max %{{.*}} dims = [1] : tensor<2x120xf32> -> tensor<2xf32>
func.func @repeated(%x: tensor<2x5x6xf32> {msamp.name = "x"}) -> tensor<2xf32> {
  %0 = msamp.broadcast %x dims = [0, 1, 3] : tensor<2x5x6xf32> -> tensor<2x5x2x6xf32>
  %1 = msamp.reshape %0 : tensor<2x5x2x6xf32> -> tensor<2x10x6xf32>
  %2 = msamp.broadcast %1 dims = [0, 1, 2] : tensor<2x10x6xf32> -> tensor<2x10x6x2xf32>
  %3 = msamp.reshape %2 : tensor<2x10x6x2xf32> -> tensor<2x120xf32>
  %4 = msamp.reduce max %3 dims = [1] : tensor<2x120xf32> -> tensor<2xf32>
  return %4 : tensor<2xf32>
}

// A sum of what is only repeated is a multiple; the sum over rows that is left is of the values.
// CHECK-LABEL: func.func @multiple
// CHECK-NOT: tensor<8x3x2x3xf32>
// CHECK: msamp.reduce sum %{{.*}} dims = [2] : tensor<8x3x3xf32> -> tensor<8x3xf32>
// CHECK: arith.mulf
func.func @multiple(%x: tensor<8x3x3xf32> {msamp.name = "x"}) -> tensor<8x3xf32> {
  %0 = msamp.broadcast %x dims = [0, 1, 3] : tensor<8x3x3xf32> -> tensor<8x3x2x3xf32>
  %1 = msamp.reduce sum %0 dims = [2, 3] : tensor<8x3x2x3xf32> -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}
