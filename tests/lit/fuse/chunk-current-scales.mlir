// A current scale of the gradient of the logits is that of a chunk; one that something else reads keeps the rows together.
// RUN: msamp-opt %s --msamp-expand-named-ops --msamp-chunk-loss=bytes=32768 --canonicalize --cse --remarks-filter=fuse 2>&1 | FileCheck %s

// CHECK: [Passed] loss-chunk {{.*}}Remark=128, Remark=" of ", Remark=256
// CHECK-LABEL: func.func @micro_step
// CHECK: %[[A0:.*]] = msamp.reduce max %{{.*}} dims = [0, 1] {{.*}} : tensor<128x64xf32> -> tensor<f32>
// CHECK: %[[S0:.*]] = msamp.scale_of %[[A0]] f8E5M2
// CHECK: msamp.quantize %{{.*}}, %[[S0]]
// CHECK: msamp.scaled_matmul %{{.*}}, %arg1 scales %[[S0]], %arg3
// CHECK: %[[A1:.*]] = msamp.reduce max %{{.*}} dims = [0, 1]
// CHECK: %[[S1:.*]] = msamp.scale_of %[[A1]]
// CHECK: msamp.scaled_matmul %{{.*}}, %arg1 scales %[[S1]], %arg3
func.func @micro_step(%h: tensor<256x16xf8E4M3FN>, %w: tensor<64x16xf8E4M3FN>, %sh: tensor<f32>, %sw: tensor<f32>, %labels: tensor<256xi64>) -> (tensor<f32>, tensor<256x16xf32>) {
  %logits = msamp.scaled_matmul %h, %w scales %sh, %sw {transpose_b} : tensor<256x16xf8E4M3FN>, tensor<64x16xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<256x64xf32>
  %loss, %lse, %valid = msamp.cross_entropy %logits, %labels {ignore_index = -100 : i64} : tensor<256x64xf32>, tensor<256xi64> -> tensor<f32>, tensor<256xf32>, tensor<f32>
  %lseRow = msamp.broadcast %lse dims = [0] : tensor<256xf32> -> tensor<256x64xf32>
  %shifted = arith.subf %logits, %lseRow : tensor<256x64xf32>
  %d = math.exp %shifted : tensor<256x64xf32>
  %m = math.absf %d : tensor<256x64xf32>
  %a = msamp.reduce max %m dims = [0, 1] : tensor<256x64xf32> -> tensor<f32>
  %s = msamp.scale_of %a f8E5M2 : tensor<f32> -> tensor<f32>
  %d8 = msamp.quantize %d, %s : tensor<256x64xf32>, tensor<f32> -> tensor<256x64xf8E5M2>
  %dx = msamp.scaled_matmul %d8, %w scales %s, %sw : tensor<256x64xf8E5M2>, tensor<64x16xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<256x16xf32>
  return %loss, %dx : tensor<f32>, tensor<256x16xf32>
}
