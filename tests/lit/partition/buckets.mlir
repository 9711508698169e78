// Flat spaces in the order in which gradients become complete, buckets of a bounded size, stores and exchanges in place.
// RUN: msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-place-gradients --msamp-exchange-gradients --msamp-verify-phase="phase=partition" | FileCheck %s
// RUN: msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-assign-state-classes="level=bf16 accumulate=2" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-place-gradients="zero=1" --msamp-exchange-gradients --msamp-verify-phase="phase=partition" | FileCheck %s --check-prefix=MANY
// RUN: msamp-opt %S/../precision/Inputs/mlp.mlir --msamp-assign-state-classes="level=fp32" --msamp-convert-gradients --msamp-place-gradients="bucket-mib=0" --msamp-exchange-gradients --msamp-verify-phase="phase=partition" | FileCheck %s --check-prefix=SMALL

// CHECK: msamp.bucket @bucket.scaled.0 scaled offset 0 elements 2048 [@down.weight, @up.weight]
// CHECK: msamp.bucket @bucket.plain.0 plain offset 0 elements 1152 [@up.bias, @ln.weight, @ln.bias, @wte]
// CHECK-LABEL: func.func @step
// CHECK-SAME: -> (tensor<f32> {msamp.name = "loss"}, tensor<32x48xf32> {msamp.name = "logits"})
// CHECK: %[[S:.*]] = msamp.site_scale @down.weight.dw
// CHECK: %[[G:.*]] = msamp.quantize %{{.*}}, %[[S]]
// CHECK-NEXT: msamp.store_grad @down.weight, %[[G]] scale %[[S]]
// CHECK: msamp.store_grad @up.bias, %{{.*}} : tensor<64xbf16>
// CHECK: msamp.store_grad @up.weight
// CHECK-NEXT: msamp.exchange @bucket.scaled.0 wire f8E4M3FN zero 0
// CHECK: msamp.store_grad @wte
// CHECK-NEXT: msamp.exchange @bucket.plain.0 wire bf16 zero 0

// MANY: module attributes {{.*}}msamp.zero = 1
// MANY: msamp.store_grad @down.weight, %{{.*}} {accumulate} : tensor<64x16xf32>
// MANY-NOT: msamp.exchange

// Buckets of the smallest size hold a parameter each and tile the space.
// SMALL: msamp.bucket @bucket.plain.0 plain offset 0 elements 1024 [@down.weight]
// SMALL: msamp.bucket @bucket.plain.1 plain offset 1024 elements 128 [@up.bias]
// SMALL: msamp.bucket @bucket.plain.2 plain offset 1152 elements 1024 [@up.weight]
// SMALL: msamp.exchange @bucket.plain.0 wire f32 zero 0
