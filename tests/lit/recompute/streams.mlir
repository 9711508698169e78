// A residual stream whose terms are all cheap to make again: a sum of two kept values is rebuilt, one of three is kept, and the
// next one begins with it.
// RUN: msamp-opt %s --msamp-differentiate --canonicalize --cse --msamp-rebuild-activations --cse | FileCheck %s

// CHECK-LABEL: func.func @step
// CHECK: %[[Y1:.*]] = arith.addf %{{.*}}, %{{.*}} : tensor<4x6xf32>
// CHECK: %[[M2:.*]] = msamp.matmul %[[Y1]]
// CHECK: %[[G2:.*]] = msamp.gelu %[[M2]]
// CHECK: %[[Y2:.*]] = arith.addf %[[G2]], %[[Y1]]
// CHECK: msamp.matmul %[[Y2]]
// CHECK-NOT: msamp.rebuilt
// CHECK: msamp.matmul %[[Y2]], %{{.*}} {transpose_a}
// CHECK: %[[AGAIN:.*]] = arith.addf %{{.*}}, %{{.*}} {msamp.rebuilt}
// CHECK: msamp.matmul %[[AGAIN]], %{{.*}} {transpose_a}
// CHECK-NOT: arith.addf {{.*}}msamp.rebuilt
msamp.parameter @w0 : tensor<6x6xf32> matrix {trained = true}
msamp.parameter @w1 : tensor<6x6xf32> matrix {trained = true}
msamp.parameter @w2 : tensor<6x6xf32> matrix {trained = true}
msamp.parameter @w3 : tensor<6x6xf32> matrix {trained = true}
msamp.parameter @head : tensor<6x9xf32> matrix {trained = true}
func.func @forward(%x: tensor<4x6xf32> {msamp.name = "x"}, %t: tensor<4xi64> {msamp.name = "labels"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w0 = msamp.get @w0 : tensor<6x6xf32>
  %w1 = msamp.get @w1 : tensor<6x6xf32>
  %w2 = msamp.get @w2 : tensor<6x6xf32>
  %w3 = msamp.get @w3 : tensor<6x6xf32>
  %w4 = msamp.get @head : tensor<6x9xf32>
  %m0 = msamp.matmul %x, %w0 : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>
  %m1 = msamp.matmul %x, %w1 : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>
  %g0 = msamp.gelu %m0 : tensor<4x6xf32> -> tensor<4x6xf32>
  %g1 = msamp.gelu %m1 : tensor<4x6xf32> -> tensor<4x6xf32>
  %y1 = arith.addf %g0, %g1 : tensor<4x6xf32>
  %m2 = msamp.matmul %y1, %w2 : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>
  %g2 = msamp.gelu %m2 : tensor<4x6xf32> -> tensor<4x6xf32>
  %y2 = arith.addf %g2, %y1 : tensor<4x6xf32>
  %m3 = msamp.matmul %y2, %w3 : tensor<4x6xf32>, tensor<6x6xf32> -> tensor<4x6xf32>
  %g3 = msamp.gelu %m3 : tensor<4x6xf32> -> tensor<4x6xf32>
  %y3 = arith.addf %g3, %y2 : tensor<4x6xf32>
  %l = msamp.matmul %y3, %w4 : tensor<4x6xf32>, tensor<6x9xf32> -> tensor<4x9xf32>
  %loss, %lse, %valid = msamp.cross_entropy %l, %t {ignore_index = -100 : i64} : tensor<4x9xf32>, tensor<4xi64> -> tensor<f32>, tensor<4xf32>, tensor<f32>
  return %loss : tensor<f32>
}
