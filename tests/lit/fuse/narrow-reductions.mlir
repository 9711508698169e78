// A sum over rows is rounded by the kernel that completes it.
// RUN: msamp-opt %s --msamp-narrow-reductions --msamp-form-clusters | FileCheck %s

// CHECK-LABEL: func.func @bias_gradient
// CHECK: %[[C:.*]]:2 = msamp.cluster(%arg0
// CHECK: msamp.reduce sum %{{.*}} dims = [0] : tensor<64x32xf32> -> tensor<32xbf16>
// CHECK-NOT: msamp.cluster
// CHECK: return %[[C]]#0, %[[C]]#1
func.func @bias_gradient(%x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32xbf16>) {
  %e = math.exp %x : tensor<64x32xf32>
  %s = msamp.reduce sum %e dims = [0] : tensor<64x32xf32> -> tensor<32xf32>
  %n = arith.truncf %s : tensor<32xf32> to tensor<32xbf16>
  return %e, %n : tensor<64x32xf32>, tensor<32xbf16>
}

// A sum within rows goes on in FP32, and one over some of the rows is summed in memory.
// CHECK-LABEL: func.func @others
// CHECK: -> tensor<64xf32>
// CHECK: -> tensor<16x32xf32>
func.func @others(%x: tensor<64x32xf32>, %y: tensor<4x16x32xf32>) -> (tensor<64xbf16>, tensor<16x32xbf16>) {
  %s = msamp.reduce sum %x dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %n = arith.truncf %s : tensor<64xf32> to tensor<64xbf16>
  %t = msamp.reduce sum %y dims = [0] : tensor<4x16x32xf32> -> tensor<16x32xf32>
  %m = arith.truncf %t : tensor<16x32xf32> to tensor<16x32xbf16>
  return %n, %m : tensor<64xbf16>, tensor<16x32xbf16>
}
