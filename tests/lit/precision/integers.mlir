// Positions counted in floating point become integers again: they stay FP32, since BF16 has no odd number above 256.
// RUN: msamp-opt %s --msamp-assign-state-classes="level=bf16" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s

// CHECK-LABEL: func.func @step
// CHECK-NOT: bf16
// CHECK: %[[C:.*]] = msamp.matmul %{{.*}} -> tensor<2x512xf32>
// CHECK: arith.fptosi %[[C]] : tensor<2x512xf32> to tensor<2x512xi64>
func.func @step(%mask: tensor<2x512xi64> {msamp.name = "mask"})
    -> (tensor<f32> {msamp.name = "loss"}, tensor<2x512xi64> {msamp.name = "positions"}) {
  %flags = arith.sitofp %mask : tensor<2x512xi64> to tensor<2x512xf32>
  %triangle = arith.constant dense<1.0> : tensor<512x512xf32>
  %count = msamp.matmul %flags, %triangle : tensor<2x512xf32>, tensor<512x512xf32> -> tensor<2x512xf32>
  %positions = arith.fptosi %count : tensor<2x512xf32> to tensor<2x512xi64>
  %loss = arith.constant dense<0.0> : tensor<f32>
  return %loss, %positions : tensor<f32>, tensor<2x512xi64>
}
