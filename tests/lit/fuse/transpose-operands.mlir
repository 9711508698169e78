// FP8 GEMMs get operands with the summed dimension innermost; who makes the transposed copy depends on the producer.
// RUN: msamp-opt %s --msamp-transpose-operands | FileCheck %s
// RUN: msamp-opt %s --msamp-transpose-operands --msamp-expand-named-ops --msamp-form-clusters | FileCheck %s --check-prefix=FUSED

msamp.parameter @w : tensor<32x16xf32> matrix {trained = true}

// Each quantised tensor is transposed once; the weight right before its use.
// CHECK-LABEL: func.func @linear
// CHECK: %[[Q:.*]] = msamp.quantize
// CHECK: %[[W:.*]] = msamp.get @w
// CHECK: %[[WT:.*]] = msamp.transpose %[[W]] perm = [1, 0] {msamp.stored}
// CHECK-NEXT: msamp.scaled_matmul %[[Q]], %[[WT]] scales %{{.*}} {transpose_b}
// CHECK: %[[QT:.*]] = msamp.transpose %[[Q]] perm = [1, 0] {msamp.stored}
// CHECK: %[[DT:.*]] = msamp.transpose %arg1 perm = [1, 0] {msamp.stored}
// CHECK: msamp.scaled_matmul %[[QT]], %[[DT]] scales %{{.*}} {transpose_b}
// CHECK: %[[ET:.*]] = msamp.transpose %arg2
// CHECK: msamp.scaled_matmul %[[QT]], %[[ET]]
// Quantising is pointwise: one kernel stores both layouts.
// FUSED-LABEL: func.func @linear
// FUSED: %[[C:.*]]:2 = msamp.cluster(%arg0
// FUSED: msamp.quantize
// FUSED: msamp.transpose %{{.*}} perm = [1, 0] {msamp.stored}
// FUSED: msamp.cluster
// FUSED-NEXT: bb0
// FUSED-NEXT: msamp.transpose
// FUSED-NEXT: msamp.yield
// FUSED: msamp.scaled_matmul %[[C]]#0
// FUSED: msamp.scaled_matmul %[[C]]#1
func.func @linear(%x: tensor<64x32xbf16>, %dy: tensor<64x16xf8E5M2>, %dz: tensor<64x16xf8E5M2>, %s: tensor<f32>) -> (tensor<64x16xbf16>, tensor<32x16xf32>, tensor<32x16xf32>) {
  %q = msamp.quantize %x, %s : tensor<64x32xbf16>, tensor<f32> -> tensor<64x32xf8E4M3FN>
  %w = msamp.get @w : tensor<32x16xf8E4M3FN>
  %y = msamp.scaled_matmul %q, %w scales %s, %s : tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<64x16xbf16>
  %g = msamp.scaled_matmul %q, %dy scales %s, %s {transpose_a} : tensor<64x32xf8E4M3FN>, tensor<64x16xf8E5M2>, tensor<f32>, tensor<f32> -> tensor<32x16xf32>
  %h = msamp.scaled_matmul %q, %dz scales %s, %s {transpose_a} : tensor<64x32xf8E4M3FN>, tensor<64x16xf8E5M2>, tensor<f32>, tensor<f32> -> tensor<32x16xf32>
  return %y, %g, %h : tensor<64x16xbf16>, tensor<32x16xf32>, tensor<32x16xf32>
}

// A kernel that holds whole rows stages some of them to store them both ways.
// FUSED-LABEL: func.func @norm
// FUSED: msamp.cluster
// FUSED: msamp.reduce sum
// FUSED: msamp.quantize
// FUSED-NEXT: msamp.transpose
// FUSED-NOT: msamp.cluster
// FUSED: msamp.scaled_matmul
func.func @norm(%x: tensor<64x32xf32>, %dy: tensor<16x64xf8E5M2>, %s: tensor<f32>) -> tensor<32x16xf32> {
  %y, %rstd = msamp.rms_norm %x {eps = 1.0e-5 : f64} : tensor<64x32xf32> -> tensor<64x32xf32>, tensor<64xf32>
  %q = msamp.quantize %y, %s : tensor<64x32xf32>, tensor<f32> -> tensor<64x32xf8E4M3FN>
  %g = msamp.scaled_matmul %q, %dy scales %s, %s {transpose_a, transpose_b} : tensor<64x32xf8E4M3FN>, tensor<16x64xf8E5M2>, tensor<f32>, tensor<f32> -> tensor<32x16xf32>
  return %g : tensor<32x16xf32>
}
