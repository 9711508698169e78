// RUN: msamp-opt %s --msamp-differentiate --cse --msamp-verify-phase=phase=autodiff --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// Frozen parameters get no gradient, and nothing is computed for them or for inputs.
msamp.parameter @w : tensor<8x6xf32> matrix {trained = true}
msamp.parameter @v : tensor<5x6xf32> matrix {trained = true}
msamp.parameter @frozen : tensor<4x5xf32> matrix {trained = false}

// CHECK: func.func @step(%{{.*}}: tensor<4x8xf32> {msamp.name = "x"}
// CHECK-SAME: -> (tensor<f32> {msamp.name = "loss"}, tensor<8x6xf32> {msamp.grad = @w}, tensor<5x6xf32> {msamp.grad = @v})
// CHECK: %[[H:.*]] = msamp.matmul %[[X:.*]], %[[W:.*]] : {{.*}} loc("up")
// CHECK: %[[DY:.*]] = msamp.broadcast {{.*}} -> tensor<4x5xf32> loc(fused<"autodiff">["mask"])
// CHECK: %[[D:.*]] = arith.mulf %[[DY]], %{{.*}} loc(fused<"autodiff">["mask"])
// CHECK: %[[DH:.*]] = msamp.matmul %[[D]], %[[V:.*]] : tensor<4x5xf32>, tensor<5x6xf32> -> tensor<4x6xf32> loc(fused<"autodiff">["down"])
// CHECK: %[[DV:.*]] = msamp.matmul %[[D]], %[[H]] {transpose_a} : tensor<4x5xf32>, tensor<4x6xf32> -> tensor<5x6xf32> loc(fused<"autodiff">["down"])
// CHECK: %[[DW:.*]] = msamp.matmul %[[X]], %[[DH]] {transpose_a} : tensor<4x8xf32>, tensor<4x6xf32> -> tensor<8x6xf32> loc(fused<"autodiff">["up"])
// CHECK: return %{{.*}}, %[[DW]], %[[DV]]
func.func @forward(%x: tensor<4x8xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w = msamp.get @w : tensor<8x6xf32>
  %v = msamp.get @v : tensor<5x6xf32>
  %f = msamp.get @frozen : tensor<4x5xf32>
  %h = msamp.matmul %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32> loc("up")
  %y = msamp.matmul %h, %v {transpose_b} : tensor<4x6xf32>, tensor<5x6xf32> -> tensor<4x5xf32> loc("down")
  %z = arith.mulf %y, %f : tensor<4x5xf32> loc("mask")
  %loss = msamp.reduce sum %z dims = [0, 1] : tensor<4x5xf32> -> tensor<f32> loc("mask")
  return %loss : tensor<f32>
}
