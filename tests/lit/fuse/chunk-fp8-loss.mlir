// Chunks of a head with FP8 operands: a site records the amax of each, a current scale is that of the chunk.
// RUN: msamp-opt %s --msamp-expand-named-ops --msamp-chunk-loss="bytes=32768 align=64" --canonicalize --cse --msamp-transpose-operands | FileCheck %s

msamp.site @dy activation_grad f8E5M2
msamp.parameter @w : tensor<60x16xf32> table {fp8_gemms, trained = true}

// 256 tokens in two chunks, 60 classes as 64.
// CHECK-LABEL: func.func @micro_step
// CHECK: %[[W:.*]] = msamp.pad %arg1 {{.*}} tensor<60x16xf8E4M3FN> -> tensor<64x16xf8E4M3FN>
// CHECK: %[[X0:.*]] = msamp.slice %arg0 starts = [0, 0]
// CHECK: %[[S0:.*]] = msamp.slice %arg3 starts = [0] {{.*}}msamp.in_memory{{.*}} -> tensor<128xf32>
// CHECK: msamp.scaled_matmul %[[X0]], %[[W]] scales %[[S0]], %arg4 {{.*}} -> tensor<128x64xf32>
// What stands in the new columns is neither in the amax nor in the quantised gradient.
// CHECK: math.exp
// CHECK: math.exp
// CHECK: %[[D0:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<128x64xi1>, tensor<128x64xf32>
// CHECK: %[[M0:.*]] = math.absf %[[D0]]
// CHECK: %[[A0:.*]] = msamp.reduce max %[[M0]] dims = [0, 1]
// CHECK: %[[Q0:.*]] = msamp.quantize %[[D0]], %{{.*}} -> tensor<128x64xf8E5M2>
// The transposed weight is made once for all chunks, and what is transposed of the activations is a part of the whole.
// CHECK: %[[WT:.*]] = msamp.transpose %[[W]] perm = [1, 0] {{.*}}msamp.stored
// CHECK: %[[DX0:.*]] = msamp.scaled_matmul %[[Q0]], %[[WT]] {{.*}} -> tensor<128x16xf32>
// CHECK: %[[QT0:.*]] = msamp.transpose %[[Q0]] perm = [1, 0] {msamp.backward, msamp.chunk = 0 : i64, msamp.stored}
// CHECK: %[[XT:.*]] = msamp.transpose %arg2 perm = [1, 0] {msamp.stored}
// CHECK: %[[XT0:.*]] = msamp.slice %[[XT]] starts = [0, 0] strides = [1, 1] {msamp.in_memory} : tensor<16x256xf8E4M3FN> -> tensor<16x128xf8E4M3FN>
// CHECK: %[[G0:.*]] = msamp.scaled_matmul %[[QT0]], %[[XT0]] scales {{.*}} -> tensor<64x16xf32>
// CHECK: %[[A1:.*]] = msamp.reduce max %{{.*}} dims = [0, 1]
// CHECK: msamp.scaled_matmul %{{.*}}, %[[WT]]
// CHECK: %[[XT1:.*]] = msamp.slice %[[XT]] starts = [0, 128]
// CHECK: msamp.scaled_matmul %{{.*}}, %[[XT1]] scales %{{.*}} addend %[[G0]] : tensor<64x16xf32>
// CHECK: msamp.record_amax @dy, %[[A0]]
// CHECK: msamp.record_amax @dy, %[[A1]]
func.func @micro_step(%h: tensor<256x16xf8E4M3FN>, %w: tensor<60x16xf8E4M3FN>, %hw: tensor<256x16xf8E4M3FN>, %sh: tensor<256xf32>, %sw: tensor<f32>, %labels: tensor<256xi64>) -> (tensor<f32>, tensor<256x16xf32>, tensor<60x16xf32>) {
  %logits = msamp.scaled_matmul %h, %w scales %sh, %sw {transpose_b} : tensor<256x16xf8E4M3FN>, tensor<60x16xf8E4M3FN>, tensor<256xf32>, tensor<f32> -> tensor<256x60xf32>
  %loss, %lse, %valid = msamp.cross_entropy %logits, %labels {ignore_index = -100 : i64} : tensor<256x60xf32>, tensor<256xi64> -> tensor<f32>, tensor<256xf32>, tensor<f32>
  %lseRow = msamp.broadcast %lse dims = [0] : tensor<256xf32> -> tensor<256x60xf32>
  %shifted = arith.subf %logits, %lseRow : tensor<256x60xf32>
  %d = math.exp %shifted : tensor<256x60xf32>
  %m = math.absf %d : tensor<256x60xf32>
  %a = msamp.reduce max %m dims = [0, 1] : tensor<256x60xf32> -> tensor<f32>
  msamp.record_amax @dy, %a : tensor<f32>
  %s = msamp.site_scale @dy : tensor<f32>
  %d8 = msamp.quantize %d, %s : tensor<256x60xf32>, tensor<f32> -> tensor<256x60xf8E5M2>
  %dx = msamp.scaled_matmul %d8, %w scales %s, %sw : tensor<256x60xf8E5M2>, tensor<60x16xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<256x16xf32>
  %dw = msamp.scaled_matmul %d8, %hw scales %s, %sw {transpose_a} : tensor<256x60xf8E5M2>, tensor<256x16xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<60x16xf32>
  return %loss, %dx, %dw : tensor<f32>, tensor<256x16xf32>, tensor<60x16xf32>
}
