// Row-wise scales at O3: FP8 weights as stored, a scale a row in fprop and dgrad, delayed ones in wgrad.
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O3 recipe=rowwise" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s

// CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = msamp.layer_norm
// CHECK: %[[ROWS:.*]] = msamp.reduce max %{{.*}} dims = [1]
// CHECK: %[[SR:.*]] = msamp.scale_of %[[ROWS]] f8E4M3FN : tensor<32xf32>
// CHECK: %[[XR:.*]] = msamp.quantize %[[N]], %[[SR]]
// CHECK: msamp.record_amax @up.weight.x
// CHECK: %[[XT:.*]] = msamp.quantize %[[N]], %{{.*}} : tensor<32x16xf32>, tensor<f32>
// CHECK: %[[SW:.*]] = msamp.get_scale @up.weight
// CHECK: %[[W:.*]] = msamp.get @up.weight : tensor<16x64xf8E4M3FN>
// CHECK: msamp.scaled_matmul %[[XR]], %[[W]] scales %[[SR]], %[[SW]]
// CHECK: msamp.gelu_grad
// CHECK: %[[SDR:.*]] = msamp.scale_of %{{.*}} f8E5M2 : tensor<32xf32>
// CHECK: %[[DYR:.*]] = msamp.quantize %{{.*}}, %[[SDR]]
// CHECK: %[[DYT:.*]] = msamp.quantize %{{.*}} : tensor<32x64xf32>, tensor<f32>
// CHECK: msamp.scaled_matmul %[[DYR]], %{{.*}} scales %[[SDR]], %{{.*}} {transpose_b}
// CHECK: msamp.scaled_matmul %[[XT]], %[[DYT]] scales %{{.*}} {transpose_a}
