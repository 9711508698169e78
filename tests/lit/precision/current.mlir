// Current scaling: the amax pass ends before the quantising one starts, so what they read is in memory, in BF16.
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O1 recipe=current" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s

// CHECK-NOT: msamp.site
// CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = msamp.layer_norm
// CHECK: %[[B:.*]] = arith.truncf %[[N]]
// CHECK: %[[A:.*]] = msamp.reduce max
// CHECK: %[[S:.*]] = msamp.scale_of %[[A]] f8E4M3FN : tensor<f32>
// CHECK: %[[X:.*]] = arith.extf %[[B]]
// CHECK: msamp.quantize %[[X]], %[[S]]
// CHECK-NOT: msamp.record_amax
