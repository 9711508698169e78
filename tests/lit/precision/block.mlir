// Scales of blocks: of 1x128 along the summed dimension for activations and gradients, of 128x128 for weights; no site.
// RUN: msamp-opt %s --msamp-assign-state-classes="level=O2 recipe=block" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s
// RUN: msamp-opt %s --msamp-assign-state-classes="level=O3 recipe=block" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s --check-prefix=STORED

// CHECK-NOT: msamp.site
// CHECK-LABEL: func.func @step
// 192 inputs are two blocks, of which the second one is half empty.
// CHECK: %[[X:.*]] = arith.truncf {{.*}} : tensor<256x192xf32> to tensor<256x192xbf16>
// CHECK: %[[XP:.*]] = msamp.pad %[[X]] low = [0, 0] strides = [1, 1] : tensor<256x192xbf16> -> tensor<256x256xbf16>
// CHECK: %[[XB:.*]] = msamp.reshape %[[XP]] : tensor<256x256xbf16> -> tensor<256x2x128xbf16>
// CHECK: msamp.reduce max %{{.*}} dims = [2] : tensor<256x2x128xf32> -> tensor<256x2xf32>
// CHECK: %[[SX:.*]] = msamp.scale_of %{{.*}} f8E4M3FN : tensor<256x2xf32>
// CHECK: %[[XQ:.*]] = msamp.quantize %{{.*}}, %[[SX]] : tensor<256x2x128xf32>, tensor<256x2xf32> -> tensor<256x2x128xf8E4M3FN>
// CHECK: %[[XJ:.*]] = msamp.reshape %[[XQ]]
// CHECK: %[[X8:.*]] = msamp.slice %[[XJ]] starts = [0, 0] strides = [1, 1] : tensor<256x256xf8E4M3FN> -> tensor<256x192xf8E4M3FN>
// The transposed copy for wgrad, in blocks of tokens, beside it.
// CHECK: %[[XT:.*]] = msamp.transpose %[[X]] perm = [1, 0] : tensor<256x192xbf16> -> tensor<192x256xbf16>
// CHECK: msamp.reshape %[[XT]] : tensor<192x256xbf16> -> tensor<192x2x128xbf16>
// CHECK: %[[SXT:.*]] = msamp.scale_of %{{.*}} f8E4M3FN : tensor<192x2xf32>
// CHECK: %[[XT8:.*]] = msamp.reshape %{{.*}} -> tensor<192x256xf8E4M3FN>
// The weight's scales come from what is stored, and then from its own scale.
// CHECK: %[[S:.*]] = msamp.get_scale @w
// CHECK: %[[W:.*]] = msamp.get @w : tensor<192x384xf16>
// CHECK: msamp.pad %[[W]] low = [0, 0] strides = [1, 1] : tensor<192x384xf16> -> tensor<256x384xf16>
// CHECK: %[[A:.*]] = msamp.reduce max %{{.*}} dims = [1, 3] : tensor<2x128x3x128xf32> -> tensor<2x3xf32>
// CHECK: %[[D:.*]] = arith.divf %[[A]], %{{.*}} : tensor<2x3xf32>
// CHECK: %[[SW:.*]] = msamp.scale_of %[[D]] f8E4M3FN : tensor<2x3xf32>
// CHECK: %[[R:.*]] = msamp.broadcast %[[SW]] dims = [0, 2] : tensor<2x3xf32> -> tensor<2x128x3xf32>
// CHECK: msamp.quantize %{{.*}}, %[[R]] : tensor<2x128x3x128xf32>
// CHECK: %[[W8:.*]] = msamp.slice %{{.*}} : tensor<256x384xf8E4M3FN> -> tensor<192x384xf8E4M3FN>
// CHECK: %[[SWT:.*]] = msamp.transpose %[[SW]] perm = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK: msamp.scaled_matmul %[[X8]], %[[W8]] scales %[[SX]], %[[SWT]] : {{.*}} -> tensor<256x384xbf16>
// Backward: dgrad sums over the outputs, wgrad over the tokens, each over the innermost dimension of the gradient.
// CHECK: %[[SDY:.*]] = msamp.scale_of %{{.*}} f8E5M2 : tensor<256x3xf32>
// CHECK: %[[DY8:.*]] = msamp.reshape %{{.*}} -> tensor<256x384xf8E5M2>
// CHECK: %[[SDT:.*]] = msamp.scale_of %{{.*}} f8E5M2 : tensor<384x2xf32>
// CHECK: %[[DT8:.*]] = msamp.reshape %{{.*}} -> tensor<384x256xf8E5M2>
// CHECK: msamp.quantize {{.*}} {msamp.rebuilt}
// CHECK: %[[W8B:.*]] = msamp.slice
// CHECK: msamp.scaled_matmul %[[DY8]], %[[W8B]] scales %[[SDY]], %[[SW]] {transpose_b} {{.*}} -> tensor<256x192xbf16>
// CHECK: %[[G:.*]] = msamp.scaled_matmul %[[XT8]], %[[DT8]] scales %[[SXT]], %[[SDT]] {transpose_b} {{.*}} -> tensor<192x384xf32>
// The gradient is stored with one scale, from itself.
// CHECK: %[[SG:.*]] = msamp.scale_of %{{.*}} f8E4M3FN : tensor<f32>
// CHECK: msamp.quantize %{{.*}}, %[[SG]] : tensor<192x384xf32>

// A stored FP8 weight keeps its one scale beside blocks.
// STORED: %[[SW:.*]] = msamp.get_scale @w
// STORED: %[[W:.*]] = msamp.get @w : tensor<192x384xf8E4M3FN>
// STORED: msamp.scaled_matmul %{{.*}}, %[[W]] scales %{{.*}}, %[[SW]] : tensor<256x192xf8E4M3FN>, tensor<192x384xf8E4M3FN>, tensor<256x2xf32>, tensor<f32> -> tensor<256x384xbf16>
module {
  msamp.parameter @w : tensor<192x384xf32> matrix {trained = true}
  func.func @step(%x: tensor<256x192xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"},
      tensor<256x192xf32> {msamp.name = "dx"}, tensor<192x384xf32> {msamp.grad = @w}) {
    %w = msamp.get @w : tensor<192x384xf32>
    %n, %r = msamp.rms_norm %x {eps = 1.0e-5 : f64} : tensor<256x192xf32> -> tensor<256x192xf32>, tensor<256xf32>
    %y = msamp.matmul %n, %w : tensor<256x192xf32>, tensor<192x384xf32> -> tensor<256x384xf32>
    %z, %q = msamp.rms_norm %y {eps = 1.0e-5 : f64} : tensor<256x384xf32> -> tensor<256x384xf32>, tensor<256xf32>
    %loss = msamp.reduce sum %z dims = [0, 1] : tensor<256x384xf32> -> tensor<f32>
    %dy = math.exp %y : tensor<256x384xf32> loc(#bwd)
    %dx = msamp.matmul %dy, %w {transpose_b} : tensor<256x384xf32>, tensor<192x384xf32> -> tensor<256x192xf32> loc(#bwd)
    %dw = msamp.matmul %n, %dy {transpose_a} : tensor<256x192xf32>, tensor<256x384xf32> -> tensor<192x384xf32> loc(#bwd)
    return %loss, %dx, %dw : tensor<f32>, tensor<256x192xf32>, tensor<192x384xf32>
  }
}
#bwd = loc(fused<"autodiff">["node"])
