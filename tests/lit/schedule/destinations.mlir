// RUN: msamp-opt %s --msamp-lower-to-plan --split-input-file | FileCheck %s

// A matrix that is transposed in memory is read through the GEMM's flag; a value with several uses is copied to its
// place; gradients of several micro-batches are accumulated; constant gradients are filled in.
// CHECK-LABEL: plan.program @micro_step
module {
  msamp.parameter @w : tensor<8x4xf32> matrix {trained = true}
  msamp.parameter @u : tensor<8x4xf32> matrix {trained = true}
  msamp.parameter @unused : tensor<16xf32> bias {trained = true}
  func.func @micro_step(%x: tensor<8x4xf32> {msamp.name = "x"}) -> (tensor<4x4xf32> {msamp.name = "y"}) {
    %w = msamp.get @w : tensor<8x4xf32>
    %t = msamp.transpose %w perm = [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
    // CHECK-DAG: %[[W:.*]] = plan.place weight "w"
    // CHECK-DAG: %[[Y:.*]] = plan.place output "y"
    // CHECK-DAG: %[[GU:.*]] = plan.place grad "u"
    // CHECK-DAG: %[[GW:.*]] = plan.place grad "w"
    // CHECK-DAG: %[[ZERO:.*]] = plan.place grad "unused"
    // CHECK: plan.matmul(%[[W]], %{{.*}}) writes(%[[Y]]) {{.*}}transpose_a
    %y = msamp.matmul %t, %x : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    // CHECK: plan.matmul(%{{.*}}, %[[Y]]) writes(%[[G:[0-9]+]])
    %g = msamp.matmul %x, %y : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    // CHECK-NEXT: plan.copy(%[[G]]) writes(%[[GU]])
    msamp.store_grad @u, %g : tensor<8x4xf32>
    // CHECK-NEXT: plan.accumulate(%[[G]]) writes(%[[GW]])
    msamp.store_grad @w, %g {accumulate} : tensor<8x4xf32>
    %zero = arith.constant dense<0.0> : tensor<16xf32>
    // CHECK-NEXT: plan.fill() writes(%[[ZERO]])
    msamp.store_grad @unused, %zero : tensor<16xf32>
    return %y : tensor<4x4xf32>
  }
}

// -----

// Scales of stored gradients are known before their bucket is exchanged; equal constants are kept once.
// CHECK-LABEL: plan.program @micro_step
module {
  msamp.parameter @w : tensor<128xf32> matrix {trained = true}
  msamp.bucket @b scaled offset 0 elements 128 [@w]
  func.func @micro_step(%g: tensor<128xf8E4M3FN> {msamp.name = "g"}, %s: tensor<f32> {msamp.name = "s"}) -> (tensor<2xi64> {msamp.name = "a"}, tensor<2xi64> {msamp.name = "b"}) {
    // CHECK-DAG: plan.place constant "constant0"
    // CHECK: plan.copy
    // CHECK-NEXT: plan.store_grad_scale [@w](%{{.*}}) writes()
    // CHECK-NEXT: plan.exchange @b wire f8E4M3FN zero 0() writes()
    msamp.store_grad @w, %g scale %s : tensor<f32> : tensor<128xf8E4M3FN>
    msamp.exchange @b wire f8E4M3FN zero 0
    %c = arith.constant dense<[1, 2]> : tensor<2xi64>
    %d = arith.constant dense<[1, 2]> : tensor<2xi64>
    return %c, %d : tensor<2xi64>, tensor<2xi64>
  }
}
// CHECK: plan.constant @constant0 dense<[1, 2]>
// CHECK-NOT: plan.constant
