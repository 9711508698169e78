// Logits, loss and gradients of the head, a chunk of tokens at a time: 256 tokens x 64 classes in FP32 are 64 KiB.
// RUN: msamp-opt %s --msamp-expand-named-ops --msamp-chunk-loss=bytes=32768 --canonicalize --cse | FileCheck %s
// RUN: msamp-opt %s --msamp-expand-named-ops --msamp-chunk-loss=bytes=32768 --canonicalize --cse --msamp-form-clusters | FileCheck %s --check-prefix=FUSED
// RUN: msamp-opt %s --msamp-expand-named-ops --msamp-chunk-loss=bytes=65536 | FileCheck %s --check-prefix=WHOLE
// RUN: msamp-opt %s --msamp-expand-named-ops --msamp-chunk-loss=bytes=0 | FileCheck %s --check-prefix=WHOLE

// WHOLE-NOT: msamp.chunk
// CHECK-LABEL: func.func @micro_step
// CHECK: %[[H0:.*]] = msamp.slice %arg0 starts = [0, 0] strides = [1, 1] {{.*}}msamp.in_memory{{.*}} -> tensor<128x16xf32>
// CHECK: msamp.matmul %[[H0]], %arg1 {{.*}}transpose_b{{.*}} -> tensor<128x64xf32>
// CHECK: %[[DX0:.*]] = msamp.matmul %{{.*}}, %arg1 {{.*}} -> tensor<128x16xf32>
// CHECK: %[[DW0:.*]] = msamp.matmul %{{.*}}, %[[H0]] {{.*}}transpose_a{{.*}} -> tensor<64x16xf32>
// CHECK: %[[H1:.*]] = msamp.slice %arg0 starts = [128, 0]
// CHECK: %[[DX1:.*]] = msamp.matmul %{{.*}}, %arg1 {{.*}} -> tensor<128x16xf32>
// CHECK: %[[DW1:.*]] = msamp.matmul %{{.*}}, %[[H1]] addend %[[DW0]] : tensor<64x16xf32> {{.*}}transpose_a
// CHECK: %[[DX:.*]] = msamp.concat %[[DX0]], %[[DX1]] dim = 0 {msamp.in_memory}
// CHECK-NOT: tensor<256x64x
// CHECK: return %{{.*}}, %[[DX]], %[[DW1]]

// The number of labels that count, then for each chunk: logits, one kernel, two products. Then the loss.
// FUSED-LABEL: func.func @micro_step
// FUSED: msamp.matmul
// FUSED: msamp.cluster
// FUSED: math.log
// FUSED: msamp.yield {{.*}} : tensor<128xf32>, tensor<128xf32>, tensor<128x64xf32>
// FUSED: msamp.matmul
// FUSED: msamp.matmul
// FUSED: msamp.matmul
// FUSED: msamp.cluster
// FUSED: msamp.yield {{.*}} : tensor<128xf32>, tensor<128xf32>, tensor<128x64xf32>
// FUSED: msamp.matmul
// FUSED: msamp.matmul
// FUSED: msamp.cluster
// FUSED-NOT: msamp.matmul
// FUSED: return
func.func @micro_step(%h: tensor<256x16xf32>, %w: tensor<64x16xf32>, %labels: tensor<256xi64>) -> (tensor<f32>, tensor<256x16xf32>, tensor<64x16xf32>) {
  %logits = msamp.matmul %h, %w {transpose_b} : tensor<256x16xf32>, tensor<64x16xf32> -> tensor<256x64xf32>
  %loss, %lse, %valid = msamp.cross_entropy %logits, %labels {ignore_index = -100 : i64} : tensor<256x64xf32>, tensor<256xi64> -> tensor<f32>, tensor<256xf32>, tensor<f32>
  %lseRow = msamp.broadcast %lse dims = [0] : tensor<256xf32> -> tensor<256x64xf32>
  %shifted = arith.subf %logits, %lseRow : tensor<256x64xf32>
  %p = math.exp %shifted : tensor<256x64xf32>
  %one = arith.constant dense<1.0> : tensor<f32>
  %share = arith.divf %one, %valid : tensor<f32>
  %weight = msamp.broadcast %share dims = [] : tensor<f32> -> tensor<256x64xf32>
  %d = arith.mulf %p, %weight : tensor<256x64xf32>
  %dx = msamp.matmul %d, %w : tensor<256x64xf32>, tensor<64x16xf32> -> tensor<256x16xf32>
  %dw = msamp.matmul %d, %h {transpose_a} : tensor<256x64xf32>, tensor<256x16xf32> -> tensor<64x16xf32>
  return %loss, %dx, %dw : tensor<f32>, tensor<256x16xf32>, tensor<64x16xf32>
}

// Rows that something mixes stay together.
// CHECK-LABEL: func.func @eval
// CHECK: tensor<256x64xf32>
func.func @eval(%h: tensor<256x16xf32>, %w: tensor<64x16xf32>) -> tensor<256xf32> {
  %logits = msamp.matmul %h, %w {transpose_b} : tensor<256x16xf32>, tensor<64x16xf32> -> tensor<256x64xf32>
  %m = msamp.reduce max %logits dims = [1] : tensor<256x64xf32> -> tensor<256xf32>
  return %m : tensor<256xf32>
}
