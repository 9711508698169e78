// What is rounded to BF16: what outlives its kernel, and nothing inside of one.
// RUN: msamp-opt %s --msamp-assign-state-classes="level=bf16" --msamp-round-activations | FileCheck %s
module {
  msamp.parameter @w : tensor<16x16xf32> matrix {trained = true}
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<32x16xf32> {msamp.name = "x"}, %cos: tensor<1x32x1x16xf32> {msamp.name = "cos"}) -> (tensor<f32> {msamp.name = "loss"}) {
    // CHECK: msamp.get @w : tensor<16x16xbf16>
    %w = msamp.get @w : tensor<16x16xf32>
    // A library op takes BF16, also of an input.
    // CHECK: %[[Y:.*]] = msamp.matmul %{{.*}}, %{{.*}} : tensor<32x16xbf16>, tensor<16x16xbf16> -> tensor<32x16xbf16>
    %y = msamp.matmul %x, %w : tensor<32x16xf32>, tensor<16x16xf32> -> tensor<32x16xf32>
    // Several uses in one kernel: no rounding in between.
    // CHECK: %[[E:.*]] = math.exp %{{.*}} : tensor<32x16xf32>
    // CHECK-NEXT: %[[S:.*]] = msamp.reduce sum %[[E]] dims = [1]
    // CHECK-NEXT: %[[B:.*]] = msamp.broadcast %[[S]]
    // CHECK-NEXT: %[[P:.*]] = arith.divf %[[E]], %[[B]]
    // CHECK-NEXT: %[[P16:.*]] = arith.truncf %[[P]]
    %e = math.exp %y : tensor<32x16xf32>
    %s = msamp.reduce sum %e dims = [1] : tensor<32x16xf32> -> tensor<32xf32>
    %b = msamp.broadcast %s dims = [0] : tensor<32xf32> -> tensor<32x16xf32>
    %p = arith.divf %e, %b : tensor<32x16xf32>
    // CHECK-NEXT: %[[Z:.*]] = msamp.matmul %[[P16]], %{{.*}} -> tensor<32x16xbf16>
    %z = msamp.matmul %p, %w : tensor<32x16xf32>, tensor<16x16xf32> -> tensor<32x16xf32>
    // A value that a use behind a library op reads again, and views of it.
    // CHECK: %[[R:.*]] = arith.addf
    // CHECK-NEXT: %[[R16:.*]] = arith.truncf %[[R]]
    %r = arith.addf %z, %x : tensor<32x16xf32>
    // CHECK: msamp.reshape %[[R16]] : tensor<32x16xbf16> -> tensor<1x32x1x16xbf16>
    %r4 = msamp.reshape %r : tensor<32x16xf32> -> tensor<1x32x1x16xf32>
    // CHECK: %[[Q:.*]] = msamp.rotary {{.*}} : tensor<1x32x1x16xf32>
    // CHECK-NEXT: %[[Q16:.*]] = arith.truncf %[[Q]]
    %q = msamp.rotary %r4, %cos, %cos : tensor<1x32x1x16xf32>, tensor<1x32x1x16xf32>, tensor<1x32x1x16xf32> -> tensor<1x32x1x16xf32>
    // CHECK: msamp.attention %[[Q16]], %[[Q16]], {{.*}} -> tensor<1x32x1x16xbf16>, tensor<1x1x32xf32>
    %o, %lse = msamp.attention %q, %q, %r4 {scale = 1.0 : f64} : tensor<1x32x1x16xf32>, tensor<1x32x1x16xf32>, tensor<1x32x1x16xf32> -> tensor<1x32x1x16xf32>, tensor<1x1x32xf32>
    %o2 = msamp.reshape %o : tensor<1x32x1x16xf32> -> tensor<32x16xf32>
    // CHECK: arith.extf %[[R16]]
    %t = arith.addf %o2, %r : tensor<32x16xf32>
    %loss = msamp.reduce sum %t dims = [0, 1] : tensor<32x16xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
