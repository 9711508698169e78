// A rebuilt activation is quantised with the scale of the one it is a copy of, and recorded once.
// RUN: msamp-opt %s --msamp-assign-state-classes="level=O3" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations | FileCheck %s
// RUN: msamp-opt %s --msamp-assign-state-classes="level=O3 recipe=current" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations | FileCheck %s --check-prefix=CURRENT

// CHECK: msamp.record_amax @w.x
// CHECK-NOT: msamp.record_amax @w.x
// CHECK: msamp.scaled_matmul
// CHECK: msamp.rms_norm
// CHECK: %[[S:.*]] = msamp.site_scale @w.x
// CHECK: %[[X:.*]] = msamp.quantize %{{.*}}, %[[S]] {{.*}} -> tensor<16x32xf8E4M3FN>
// CHECK: msamp.scaled_matmul %[[X]], %{{.*}} scales %[[S]], %{{.*}} {transpose_a}
// CURRENT: %[[S:.*]] = msamp.scale_of %{{.*}} f8E4M3FN
// CURRENT: msamp.scaled_matmul
// CURRENT: %[[X:.*]] = msamp.quantize %{{.*}}, %[[S]] {{.*}} -> tensor<16x32xf8E4M3FN>
// CURRENT: msamp.scaled_matmul %[[X]], %{{.*}} {transpose_a}
module {
  msamp.parameter @w : tensor<32x32xf32> matrix {trained = true}
  func.func @step(%x: tensor<16x32xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}, tensor<32x32xf32> {msamp.grad = @w}) {
    %w = msamp.get @w : tensor<32x32xf32>
    %g = msamp.gelu %x : tensor<16x32xf32> -> tensor<16x32xf32>
    %y = msamp.matmul %g, %w : tensor<16x32xf32>, tensor<32x32xf32> -> tensor<16x32xf32>
    %n, %r = msamp.rms_norm %y {eps = 1.0e-5 : f64} : tensor<16x32xf32> -> tensor<16x32xf32>, tensor<16xf32>
    %loss = msamp.reduce sum %n dims = [0, 1] : tensor<16x32xf32> -> tensor<f32>
    %g1 = msamp.gelu %x {msamp.rebuilt} : tensor<16x32xf32> -> tensor<16x32xf32> loc(#rebuilt)
    %dw = msamp.matmul %g1, %n {transpose_a} : tensor<16x32xf32>, tensor<16x32xf32> -> tensor<32x32xf32> loc(#bwd)
    return %loss, %dw : tensor<f32>, tensor<32x32xf32>
  }
}
#bwd = loc(fused<"autodiff">["node"])
#rebuilt = loc(fused<"recompute">["gelu"])
