// The three programs of a step.
// RUN: msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-place-gradients="zero=1" --msamp-exchange-gradients --msamp-split-programs --msamp-build-update="optimizer=adam" --msamp-verify-phase="phase=optimizer" | FileCheck %s
// RUN: msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-assign-state-classes="level=fp32 accumulate=2" --msamp-convert-gradients --msamp-place-gradients --msamp-exchange-gradients --msamp-split-programs --msamp-build-update="optimizer=sgd" --msamp-verify-phase="phase=optimizer" | FileCheck %s --check-prefix=MANY
// RUN: not msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-split-programs 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-build-update="optimizer=lion" 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK-NOT: func.func @step
// CHECK-LABEL: func.func @micro_step
// CHECK-SAME: -> (tensor<f32> {msamp.name = "loss"})
// CHECK: msamp.store_grad
// CHECK: return %{{.*}} : tensor<f32>
// CHECK-LABEL: func.func @eval
// CHECK-SAME: -> (tensor<f32> {msamp.name = "loss"}, tensor<32x48xf32> {msamp.name = "logits"})
// CHECK-NOT: msamp.record_amax
// CHECK-NOT: gelu_grad
// CHECK-NOT: msamp.store_grad
// CHECK-NOT: msamp.exchange
// CHECK: return %{{.*}}, %{{.*}} : tensor<f32>, tensor<32x48xf32>
// CHECK-LABEL: func.func @update()
// CHECK-NEXT: msamp.grad_norm
// CHECK-NEXT: msamp.update scaled "adam"
// CHECK-NEXT: msamp.update plain "adam"
// CHECK-NEXT: msamp.gather_weights scaled
// CHECK-NEXT: msamp.gather_weights plain
// CHECK-NEXT: msamp.update_sites history 16{{$}}
// CHECK-NEXT: return

// MANY-LABEL: func.func @update()
// MANY-NEXT: msamp.exchange @bucket.plain.0 wire f32 zero 0
// MANY-NEXT: msamp.grad_norm
// MANY-NEXT: msamp.update plain "sgd"
// MANY-NEXT: return

// EARLY: error: result 2 is a gradient: run the partition phase first
// NONE: error: optimizer 'lion' is none of adamw, adam, sgd
