// RUN: msamp-opt %s --msamp-differentiate --canonicalize --cse --msamp-rebuild-activations=mode=none | FileCheck %s --check-prefix=NONE
// RUN: msamp-opt %s --msamp-differentiate --canonicalize --cse --msamp-rebuild-activations --cse --msamp-verify-phase=phase=recompute | FileCheck %s --check-prefix=SEL
// RUN: msamp-opt %s --msamp-differentiate --canonicalize --cse --msamp-rebuild-activations=mode=full --cse | FileCheck %s --check-prefix=FULL
// RUN: not msamp-opt %s --msamp-differentiate --msamp-rebuild-activations=mode=some 2>&1 | FileCheck %s --check-prefix=ERR

// NONE-NOT: msamp.rebuilt
// ERR: unknown recompute mode 'some'; use none, selective or full

// The output of gelu and of the norm are made again from what is kept anyway; the GEMM's result is kept.
// SEL-LABEL: func.func @step
// SEL: %[[X1:.*]] = arith.addf
// SEL: %[[Y:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = msamp.layer_norm %[[X1]]
// SEL: %[[H:.*]] = msamp.matmul %[[Y]]
// SEL: %[[G:.*]] = msamp.gelu %[[H]] : tensor
// SEL: msamp.matmul %[[G]]
// SEL: %[[G2:.*]] = msamp.gelu %[[H]] {msamp.rebuilt}
// SEL: msamp.matmul %[[G2]], %{{.*}} {transpose_a}
// SEL: %[[C:.*]] = arith.subf %[[X1]], %{{.*}} {msamp.rebuilt}
// SEL: msamp.matmul %{{.*}}, %{{.*}} {transpose_a}

// Only the residual stream is kept: the GEMM runs again.
// FULL-LABEL: func.func @step
// FULL: %[[X1:.*]] = arith.addf
// FULL: %[[Y:.*]], %{{.*}}, %{{.*}} = msamp.layer_norm %[[X1]]
// FULL: msamp.matmul %{{.*}} {msamp.rebuilt}
// FULL: msamp.gelu %{{.*}} {msamp.rebuilt}
msamp.parameter @in : tensor<6x6xf32> matrix {trained = true}
msamp.parameter @up : tensor<6x8xf32> matrix {trained = true}
msamp.parameter @down : tensor<8x6xf32> matrix {trained = true}
msamp.parameter @head : tensor<6x9xf32> matrix {trained = true}
func.func @forward(%x: tensor<4x6xf32> {msamp.name = "x"}, %t: tensor<4xi64> {msamp.name = "labels"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w0 = msamp.get @in : tensor<6x6xf32>
  %w1 = msamp.get @up : tensor<6x8xf32>
  %w2 = msamp.get @down : tensor<8x6xf32>
  %w3 = msamp.get @head : tensor<6x9xf32>
  %0 = msamp.matmul %x, %w0 : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>
  %x1 = arith.addf %x, %0 : tensor<4x6xf32>
  %y, %mean, %rstd = msamp.layer_norm %x1 {eps = 1.0e-5 : f64} : tensor<4x6xf32> -> tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>
  %h = msamp.matmul %y, %w1 : tensor<4x6xf32>, tensor<6x8xf32> -> tensor<4x8xf32>
  %g = msamp.gelu %h : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = msamp.matmul %g, %w2 : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  %x2 = arith.addf %x1, %1 : tensor<4x6xf32>
  %l = msamp.matmul %x2, %w3 : tensor<4x6xf32>, tensor<6x9xf32> -> tensor<4x9xf32>
  %loss, %lse, %valid = msamp.cross_entropy %l, %t {ignore_index = -100 : i64} : tensor<4x9xf32>, tensor<4xi64> -> tensor<f32>, tensor<4xf32>, tensor<f32>
  return %loss : tensor<f32>
}
