// A concat that is left in memory, as one part comes from a library, has its computed parts written by kernels.
// RUN: msamp-opt %s --msamp-form-clusters | FileCheck %s

// CHECK: %[[P:.*]] = msamp.cluster
// CHECK: arith.extf
// CHECK: %[[M:.*]] = msamp.matmul
// CHECK: msamp.concat %[[P]], %[[M]]
msamp.parameter @cls : tensor<1x8xf32> table {trained = true}
func.func @micro_step(%a: tensor<4x4xf32>, %b: tensor<4x8xf32>) -> tensor<5x8xf32> {
  %0 = msamp.get @cls : tensor<1x8xbf16>
  %1 = arith.extf %0 : tensor<1x8xbf16> to tensor<1x8xf32>
  %2 = msamp.matmul %a, %b : tensor<4x4xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %3 = msamp.concat %1, %2 dim = 0 : tensor<1x8xf32>, tensor<4x8xf32> -> tensor<5x8xf32>
  return %3 : tensor<5x8xf32>
}
