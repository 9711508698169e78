// RUN: msamp-opt %s --msamp-simplify-layout | FileCheck %s

// k^T written as merge, transpose, split is a flag of the matmul.
// CHECK-LABEL: @transposed_keys
// CHECK-NEXT: msamp.matmul %arg0, %arg1 {transpose_b}
// CHECK-NEXT: return
func.func @transposed_keys(%q: tensor<2x4x32x16xf32>, %k: tensor<2x4x32x16xf32>) -> tensor<2x4x32x32xf32> {
  %0 = msamp.reshape %k : tensor<2x4x32x16xf32> -> tensor<8x32x16xf32>
  %1 = msamp.transpose %0 perm = [0, 2, 1] : tensor<8x32x16xf32> -> tensor<8x16x32xf32>
  %2 = msamp.reshape %1 : tensor<8x16x32xf32> -> tensor<2x4x16x32xf32>
  %3 = msamp.matmul %q, %2 : tensor<2x4x32x16xf32>, tensor<2x4x16x32xf32> -> tensor<2x4x32x32xf32>
  return %3 : tensor<2x4x32x32xf32>
}

// A part of a fused projection, permuted and sliced: the slice goes to the projection's columns.
// CHECK-LABEL: @fused_projection
// CHECK: %[[S:.*]] = msamp.slice %arg0 starts = [0, 64] strides = [1, 1] : tensor<64x192xf32> -> tensor<64x64xf32>
// CHECK: %[[R:.*]] = msamp.reshape %[[S]] : tensor<64x64xf32> -> tensor<2x32x4x16xf32>
// CHECK: msamp.transpose %[[R]] perm = [0, 2, 1, 3]
func.func @fused_projection(%qkv: tensor<64x192xf32>) -> tensor<2x4x32x16xf32> {
  %0 = msamp.reshape %qkv : tensor<64x192xf32> -> tensor<2x32x3x4x16xf32>
  %1 = msamp.transpose %0 perm = [2, 0, 3, 1, 4] : tensor<2x32x3x4x16xf32> -> tensor<3x2x4x32x16xf32>
  %2 = msamp.slice %1 starts = [1, 0, 0, 0, 0] strides = [1, 1, 1, 1, 1] : tensor<3x2x4x32x16xf32> -> tensor<1x2x4x32x16xf32>
  %3 = msamp.reshape %2 : tensor<1x2x4x32x16xf32> -> tensor<2x4x32x16xf32>
  return %3 : tensor<2x4x32x16xf32>
}

// A slice of an inner dimension stays where it is.
// CHECK-LABEL: @inner_slice
// CHECK: msamp.reshape
// CHECK-NEXT: msamp.slice
func.func @inner_slice(%x: tensor<64x192xf32>) -> tensor<64x4x1x16xf32> {
  %0 = msamp.reshape %x : tensor<64x192xf32> -> tensor<64x4x3x16xf32>
  %1 = msamp.slice %0 starts = [0, 0, 1, 0] strides = [1, 1, 1, 1] : tensor<64x4x3x16xf32> -> tensor<64x4x1x16xf32>
  return %1 : tensor<64x4x1x16xf32>
}

// Transposes sink below pointwise ops and take broadcasts with them.
// CHECK-LABEL: @sink
// CHECK: %[[B:.*]] = msamp.broadcast %arg1 dims = [1, 3] : tensor<32x16xf32> -> tensor<2x32x4x16xf32>
// CHECK: %[[M:.*]] = arith.mulf %arg0, %[[B]]
// CHECK: msamp.transpose %[[M]] perm = [0, 2, 1, 3]
func.func @sink(%x: tensor<2x32x4x16xf32>, %table: tensor<32x16xf32>) -> tensor<2x4x32x16xf32> {
  %0 = msamp.transpose %x perm = [0, 2, 1, 3] : tensor<2x32x4x16xf32> -> tensor<2x4x32x16xf32>
  %1 = msamp.broadcast %table dims = [2, 3] : tensor<32x16xf32> -> tensor<2x4x32x16xf32>
  %2 = arith.mulf %0, %1 : tensor<2x4x32x16xf32>
  return %2 : tensor<2x4x32x16xf32>
}

// CHECK-LABEL: @constant
// CHECK: arith.constant dense<{{\[\[}}1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]>
// CHECK-NOT: transpose
func.func @constant() -> tensor<2x2xf32> {
  %0 = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %1 = msamp.transpose %0 perm = [1, 0] : tensor<2x2xf32> -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
