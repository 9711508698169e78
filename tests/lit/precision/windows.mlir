// Convolutions and pools read and write BF16 from bf16 on; their filters are of the plain class at every level.
// RUN: msamp-opt %s --msamp-phase-precision="level=bf16" | FileCheck %s
// RUN: msamp-opt %s --msamp-phase-precision="level=O2" | FileCheck %s
// RUN: msamp-opt %s --msamp-phase-precision="level=fp32" | FileCheck %s --check-prefix=FP32
// FP32-NOT: bf16

msamp.parameter @f : tensor<8x3x3x3xf32> filter {trained = true}

// CHECK: msamp.parameter @f {{.*}}state_class = 0 : i32
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = arith.truncf %arg0
// CHECK: %[[F:.*]] = msamp.get @f : tensor<8x3x3x3xbf16>
// CHECK: %[[T:.*]] = msamp.transpose %[[F]] {{.*}} : tensor<8x3x3x3xbf16>
// CHECK: %[[Y:.*]] = msamp.conv %[[X]], %[[T]] {{.*}} -> tensor<2x8x8x8xbf16>
// CHECK: msamp.max_pool {{.*}} : tensor<2x8x8x8xbf16> -> tensor<2x4x4x8xbf16>, tensor<2x4x4x8xui8>
// CHECK: msamp.max_pool_grad {{.*}} : tensor<2x4x4x8xbf16>, tensor<2x4x4x8xui8> -> tensor<2x8x8x8xbf16>
// The gradient is written in the type that it is stored in, before it is turned to the parameter's layout.
// CHECK: %[[DF:.*]] = msamp.conv_wgrad {{.*}} -> tensor<8x3x3x3xbf16>
// CHECK: %[[G:.*]] = msamp.transpose %[[DF]] {{.*}} : tensor<8x3x3x3xbf16> -> tensor<8x3x3x3xbf16>
// CHECK: return %{{.*}}, %[[G]]
func.func @step(%x: tensor<2x8x8x3xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}, tensor<8x3x3x3xf32> {msamp.grad = @f}) {
  %f = msamp.get @f : tensor<8x3x3x3xf32>
  %t = msamp.transpose %f perm = [0, 2, 3, 1] : tensor<8x3x3x3xf32> -> tensor<8x3x3x3xf32>
  %y = msamp.conv %x, %t <[3, 3] by [1, 1] low [1, 1] high [1, 1] dilated [1, 1]> groups 1
      : tensor<2x8x8x3xf32>, tensor<8x3x3x3xf32> -> tensor<2x8x8x8xf32>
  %e = math.exp %y : tensor<2x8x8x8xf32>
  %m, %tap = msamp.max_pool %e <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]>
      : tensor<2x8x8x8xf32> -> tensor<2x4x4x8xf32>, tensor<2x4x4x8xui8>
  %loss = msamp.reduce sum %m dims = [0, 1, 2, 3] : tensor<2x4x4x8xf32> -> tensor<f32>
  %one = arith.constant dense<1.0> : tensor<f32> loc(#back)
  %dm = msamp.broadcast %one dims = [] : tensor<f32> -> tensor<2x4x4x8xf32> loc(#back)
  %de = msamp.max_pool_grad %dm, %tap <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]>
      : tensor<2x4x4x8xf32>, tensor<2x4x4x8xui8> -> tensor<2x8x8x8xf32> loc(#back)
  %dy = arith.mulf %de, %e : tensor<2x8x8x8xf32> loc(#back)
  %dt = msamp.conv_wgrad %x, %dy <[3, 3] by [1, 1] low [1, 1] high [1, 1] dilated [1, 1]> groups 1
      : tensor<2x8x8x3xf32>, tensor<2x8x8x8xf32> -> tensor<8x3x3x3xf32> loc(#back)
  %df = msamp.transpose %dt perm = [0, 3, 1, 2] : tensor<8x3x3x3xf32> -> tensor<8x3x3x3xf32> loc(#back)
  return %loss, %df : tensor<f32>, tensor<8x3x3x3xf32>
}
#back = loc(fused<"autodiff">["conv"])
