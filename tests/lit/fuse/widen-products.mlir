// Where tensor cores have no FP8, products read the same values in BF16; what is stored stays FP8.
// RUN: msamp-opt %s --msamp-widen-products | FileCheck %s
// RUN: msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-phase-precision=level=O3 --msamp-phase-partition --msamp-phase-optimizer --msamp-phase-fuse=target=sm_80 | FileCheck %s --check-prefix=FUSED --implicit-check-not=scaled_matmul
// RUN: msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-phase-precision=level=O3 --msamp-phase-partition --msamp-phase-optimizer --msamp-phase-fuse=target=sm_90a | FileCheck %s --check-prefix=HOPPER
// RUN: msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-phase-precision=level=O3 --msamp-phase-partition --msamp-phase-optimizer --msamp-phase-fuse=target=cpu | FileCheck %s --check-prefix=HOPPER

// The kernel that quantises for the backward writes BF16 for the forward's product; a weight is widened by a kernel of its own
// before its product; the backward widens what the forward kept.
// FUSED-LABEL: func.func @micro_step
// FUSED: msamp.quantize
// FUSED: arith.extf {{.*}} : tensor<32x16xf8E4M3FN> to tensor<32x16xf32>
// FUSED: msamp.yield {{.*}}, tensor<32x16xf8E4M3FN>, tensor<32x16xbf16>
// FUSED: %[[W:.*]] = msamp.cluster(
// FUSED: msamp.yield %{{.*}} : tensor<16x64xbf16>
// FUSED: msamp.matmul %{{.*}}, %[[W]] bias {{.*}} {fp8_values}
// FUSED: %[[G:.*]]:3 = msamp.cluster(
// FUSED: msamp.yield %{{.*}} : tensor<f32>, tensor<32x64xf8E4M3FN>, tensor<32x64xbf16>
// FUSED: msamp.matmul %[[G]]#2, {{.*}} {fp8_values}
// FUSED: %[[KEPT:.*]] = msamp.cluster(%{{.*}}, %[[G]]#1)
// FUSED: msamp.yield %{{.*}} : tensor<32x64xbf16>
// FUSED: msamp.matmul %[[KEPT]], {{.*}} {fp8_values, msamp.backward, transpose_a}
// HOPPER-LABEL: func.func @micro_step
// HOPPER: msamp.scaled_matmul

msamp.parameter @w : tensor<32x16xf32> matrix {trained = true}
msamp.site @w.x activation f8E4M3FN

// CHECK-LABEL: func.func @stored
// CHECK-DAG: %[[X8:.*]] = msamp.quantize
// CHECK-DAG: %[[W8:.*]] = msamp.get @w : tensor<32x16xf8E4M3FN>
// CHECK-DAG: %[[SX:.*]] = msamp.site_scale @w.x
// CHECK-DAG: %[[SW:.*]] = msamp.get_scale @w
// CHECK: %[[IX:.*]] = arith.divf %{{.*}}, %[[SX]] : tensor<f32>
// CHECK: %[[BX:.*]] = msamp.broadcast %[[IX]] dims = [] : tensor<f32> -> tensor<64x32xf32>
// CHECK: %[[EX:.*]] = arith.extf %[[X8]] : tensor<64x32xf8E4M3FN> to tensor<64x32xf32>
// CHECK: %[[MX:.*]] = arith.mulf %[[EX]], %[[BX]]
// CHECK: %[[X:.*]] = arith.truncf %[[MX]] : tensor<64x32xf32> to tensor<64x32xbf16>
// CHECK: %[[EW:.*]] = arith.extf %[[W8]]
// CHECK: %[[W:.*]] = arith.truncf %{{.*}} : tensor<32x16xf32> to tensor<32x16xbf16>
// CHECK: msamp.matmul %[[X]], %[[W]] {fp8_values} : tensor<64x32xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
// CHECK-NOT: scaled_matmul

func.func @stored(%x: tensor<64x32xf32>) -> tensor<64x16xbf16> {
  %sx = msamp.site_scale @w.x : tensor<f32>
  %x8 = msamp.quantize %x, %sx : tensor<64x32xf32>, tensor<f32> -> tensor<64x32xf8E4M3FN>
  %w8 = msamp.get @w : tensor<32x16xf8E4M3FN>
  %sw = msamp.get_scale @w : tensor<f32>
  %y = msamp.scaled_matmul %x8, %w8 scales %sx, %sw : tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<64x16xbf16>
  return %y : tensor<64x16xbf16>
}

// A chunk of the loss does not share kernels with another.
// CHECK-LABEL: func.func @chunk
// CHECK: arith.truncf {{.*}} {msamp.chunk = 1 : i64}
// CHECK: arith.truncf {{.*}} {msamp.chunk = 1 : i64}
// CHECK: msamp.matmul {{.*}} {fp8_values, msamp.chunk = 1 : i64}
func.func @chunk(%a: tensor<64x16xf8E5M2>, %b: tensor<16x32xf8E4M3FN>, %s: tensor<f32>) -> tensor<64x32xbf16> {
  %0 = msamp.scaled_matmul %a, %b scales %s, %s {msamp.chunk = 1 : i64} : tensor<64x16xf8E5M2>, tensor<16x32xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<64x32xbf16>
  return %0 : tensor<64x32xbf16>
}

// Scales of rows and of columns run along the dimension that the product keeps.
// CHECK-LABEL: func.func @rows
// CHECK: msamp.broadcast %{{.*}} dims = [0] : tensor<64xf32> -> tensor<64x16xf32>
// CHECK: msamp.broadcast %{{.*}} dims = [1] : tensor<32xf32> -> tensor<16x32xf32>
// CHECK: msamp.matmul {{.*}} {fp8_values} : tensor<64x16xbf16>, tensor<16x32xbf16> -> tensor<64x32xbf16>
// CHECK: msamp.broadcast %{{.*}} dims = [1] : tensor<64xf32> -> tensor<16x64xf32>
// CHECK: msamp.broadcast %{{.*}} dims = [0] : tensor<32xf32> -> tensor<32x16xf32>
// CHECK: msamp.matmul {{.*}} {fp8_values, transpose_a, transpose_b} : tensor<16x64xbf16>, tensor<32x16xbf16> -> tensor<64x32xf32>
func.func @rows(%a: tensor<64x16xf8E5M2>, %b: tensor<16x32xf8E4M3FN>, %sa: tensor<64xf32>, %sb: tensor<32xf32>, %at: tensor<16x64xf8E5M2>,
    %bt: tensor<32x16xf8E4M3FN>) -> (tensor<64x32xbf16>, tensor<64x32xf32>) {
  %0 = msamp.scaled_matmul %a, %b scales %sa, %sb : tensor<64x16xf8E5M2>, tensor<16x32xf8E4M3FN>, tensor<64xf32>, tensor<32xf32> -> tensor<64x32xbf16>
  %1 = msamp.scaled_matmul %at, %bt scales %sa, %sb {transpose_a, transpose_b} : tensor<16x64xf8E5M2>, tensor<32x16xf8E4M3FN>, tensor<64xf32>, tensor<32xf32> -> tensor<64x32xf32>
  return %0, %1 : tensor<64x32xbf16>, tensor<64x32xf32>
}
