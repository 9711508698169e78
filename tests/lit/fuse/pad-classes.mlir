// 61 classes are computed as 64, of which no reduction, product or sum sees the last three.
// RUN: msamp-opt %s --msamp-expand-named-ops --msamp-chunk-loss="bytes=1048576 align=16" --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func.func @micro_step
// CHECK: %[[W:.*]] = msamp.pad %arg1 low = [0, 0] strides = [1, 1] : tensor<61x16xf32> -> tensor<64x16xf32>
// CHECK: %[[L:.*]] = msamp.matmul %{{.*}}, %[[W]] {{.*}} -> tensor<256x64xf32>
// CHECK: %[[VALID:.*]] = arith.cmpi slt
// CHECK: %[[M:.*]] = arith.select %[[VALID]], %[[L]], %{{.*}} : tensor<256x64xi1>, tensor<256x64xf32>
// CHECK: msamp.reduce max %[[M]] dims = [1]
// CHECK: math.exp
// CHECK: math.exp
// CHECK: %[[D:.*]] = arith.select %[[VALID]], %{{.*}} : tensor<256x64xi1>, tensor<256x64xf32>
// CHECK: msamp.matmul %[[D]], %[[W]] {{.*}} -> tensor<256x16xf32>
// CHECK: %[[G:.*]] = msamp.matmul %[[D]], %{{.*}} {{.*}}transpose_a{{.*}} -> tensor<64x16xf32>
// CHECK: %[[P:.*]] = msamp.slice %[[G]] starts = [0, 0] strides = [1, 1] : tensor<64x16xf32> -> tensor<61x16xf32>
// CHECK-NOT: 256x61
// CHECK: return %{{.*}}, %{{.*}}, %[[P]]
func.func @micro_step(%h: tensor<256x16xf32>, %w: tensor<61x16xf32>, %labels: tensor<256xi64>) -> (tensor<f32>, tensor<256x16xf32>, tensor<61x16xf32>) {
  %logits = msamp.matmul %h, %w {transpose_b} : tensor<256x16xf32>, tensor<61x16xf32> -> tensor<256x61xf32>
  %loss, %lse, %valid = msamp.cross_entropy %logits, %labels {ignore_index = -100 : i64} : tensor<256x61xf32>, tensor<256xi64> -> tensor<f32>, tensor<256xf32>, tensor<f32>
  %lseRow = msamp.broadcast %lse dims = [0] : tensor<256xf32> -> tensor<256x61xf32>
  %shifted = arith.subf %logits, %lseRow : tensor<256x61xf32>
  %p = math.exp %shifted : tensor<256x61xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %share = arith.divf %one, %valid : tensor<f32>
  %weight = msamp.broadcast %share dims = [] : tensor<f32> -> tensor<256x61xf32>
  %d = arith.mulf %p, %weight : tensor<256x61xf32>
  %dx = msamp.matmul %d, %w : tensor<256x61xf32>, tensor<61x16xf32> -> tensor<256x16xf32>
  %dw = msamp.matmul %d, %h {transpose_a} : tensor<256x61xf32>, tensor<256x16xf32> -> tensor<61x16xf32>
  return %loss, %dx, %dw : tensor<f32>, tensor<256x16xf32>, tensor<61x16xf32>
}
