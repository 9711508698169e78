// RUN: msamp-opt %s --msamp-differentiate --canonicalize --cse --split-input-file | FileCheck %s

msamp.parameter @f : tensor<6x3x3x2xf32> filter {trained = true}
msamp.parameter @g : tensor<6x2x2x3xf32> filter {trained = true}

// A convolution's gradients are its transpose and a sum over windows; the transpose's gradient is a convolution again.
// CHECK-LABEL: func.func @step
// CHECK: %[[DZ:.*]] = arith.constant dense<1.000000e+00> : tensor<2x5x6x3xf32>
// CHECK: %[[F:.*]] = msamp.get @f
// CHECK: %[[G:.*]] = msamp.get @g
// CHECK: %[[Y:.*]] = msamp.conv %arg0, %[[F]] <[3, 3] by[2, 1] low[1, 0] high[1, 1] dilated[1, 2]> groups 2
// CHECK: %[[DY:.*]] = msamp.conv %[[DZ]], %[[G]] <[2, 2] by[1, 1] low[0, 0] high[0, 0] dilated[1, 1]> groups 1 {{.*}} -> tensor<2x4x5x6xf32>
// CHECK: %[[DG:.*]] = msamp.conv_wgrad %[[DZ]], %[[Y]] {{.*}} -> tensor<6x2x2x3xf32>
// CHECK: %[[DF:.*]] = msamp.conv_wgrad %arg0, %[[DY]] {{.*}} groups 2 {{.*}} -> tensor<6x3x3x2xf32>
// The image needs no gradient.
// CHECK-NOT: conv_dgrad
// CHECK: return %{{.*}}, %[[DF]], %[[DG]]
func.func @forward(%x: tensor<2x7x8x4xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %f = msamp.get @f : tensor<6x3x3x2xf32>
  %g = msamp.get @g : tensor<6x2x2x3xf32>
  %y = msamp.conv %x, %f <[3, 3] by [2, 1] low [1, 0] high [1, 1] dilated [1, 2]> groups 2
      : tensor<2x7x8x4xf32>, tensor<6x3x3x2xf32> -> tensor<2x4x5x6xf32>
  %z = msamp.conv_dgrad %y, %g <[2, 2] by [1, 1] low [0, 0] high [0, 0] dilated [1, 1]> groups 1
      : tensor<2x4x5x6xf32>, tensor<6x2x2x3xf32> -> tensor<2x5x6x3xf32>
  %loss = msamp.reduce sum %z dims = [0, 1, 2, 3] : tensor<2x5x6x3xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

msamp.parameter @f : tensor<4x3x3x4xf32> filter {trained = true}
msamp.parameter @h : tensor<4x3x3x4xf32> filter {trained = true}

// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.*]] = msamp.conv
// CHECK: %{{.*}}, %[[TAP:.*]] = msamp.max_pool %[[Y]]
// CHECK: msamp.avg_pool {{.*}} {count_padding}
// CHECK: %[[DA:.*]] = msamp.avg_pool_grad {{.*}} {count_padding} : tensor<2x2x2x4xf32> -> tensor<2x4x4x4xf32>
// CHECK: %[[DC:.*]] = msamp.conv_dgrad %[[DA]]
// CHECK: msamp.conv_wgrad
// CHECK: %[[DM:.*]] = msamp.max_pool_grad %[[DC]], %[[TAP]] <[3, 3] by[2, 2] {{.*}} -> tensor<2x8x8x4xf32>
// CHECK: msamp.conv_wgrad %arg0, %[[DM]]
func.func @forward(%x: tensor<2x8x8x4xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %f = msamp.get @f : tensor<4x3x3x4xf32>
  %h = msamp.get @h : tensor<4x3x3x4xf32>
  %y = msamp.conv %x, %f <[3, 3] by [1, 1] low [1, 1] high [1, 1] dilated [1, 1]> groups 1
      : tensor<2x8x8x4xf32>, tensor<4x3x3x4xf32> -> tensor<2x8x8x4xf32>
  %m, %tap = msamp.max_pool %y <[3, 3] by [2, 2] low [1, 1] high [1, 1] dilated [1, 1]>
      : tensor<2x8x8x4xf32> -> tensor<2x4x4x4xf32>, tensor<2x4x4x4xui8>
  %z = msamp.conv %m, %h <[3, 3] by [1, 1] low [1, 1] high [1, 1] dilated [1, 1]> groups 1
      : tensor<2x4x4x4xf32>, tensor<4x3x3x4xf32> -> tensor<2x4x4x4xf32>
  %a = msamp.avg_pool %z <[3, 3] by [2, 2] low [0, 0] high [1, 1] dilated [1, 1]> {count_padding}
      : tensor<2x4x4x4xf32> -> tensor<2x2x2x4xf32>
  %loss = msamp.reduce sum %a dims = [0, 1, 2, 3] : tensor<2x2x2x4xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
