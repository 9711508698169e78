// What becomes an integer stays FP32 through windows, too; a learned map's gradient leaves a pool in BF16, as pools write what
// they read.
// RUN: msamp-opt %s --split-input-file --msamp-phase-precision="level=bf16" | FileCheck %s

msamp.parameter @w : tensor<8xf32> table {trained = true}

// CHECK-LABEL: func.func @step
// CHECK: msamp.max_pool {{.*}} : tensor<2x8x8x3xf32> -> tensor<2x4x4x3xf32>
func.func @step(%x: tensor<2x8x8x3xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}, tensor<2x4x4x3xi64> {msamp.name = "mask"}, tensor<8xf32> {msamp.grad = @w}) {
  %w = msamp.get @w : tensor<8xf32>
  %e = math.exp %x : tensor<2x8x8x3xf32>
  %m, %tap = msamp.max_pool %e <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]>
      : tensor<2x8x8x3xf32> -> tensor<2x4x4x3xf32>, tensor<2x4x4x3xui8>
  %mask = arith.fptosi %m : tensor<2x4x4x3xf32> to tensor<2x4x4x3xi64>
  %loss = msamp.reduce sum %w dims = [0] : tensor<8xf32> -> tensor<f32>
  return %loss, %mask, %w : tensor<f32>, tensor<2x4x4x3xi64>, tensor<8xf32>
}

// -----

msamp.parameter @p : tensor<1x8x8x4xf32> matrix {trained = true}

// CHECK-LABEL: func.func @step
// CHECK: msamp.avg_pool {{.*}} : tensor<1x8x8x4xbf16> -> tensor<1x4x4x4xbf16>
// CHECK: msamp.avg_pool_grad {{.*}} : tensor<1x4x4x4xbf16> -> tensor<1x8x8x4xbf16>
func.func @step(%x: tensor<1x4x4x4xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}, tensor<1x8x8x4xf32> {msamp.grad = @p}) {
  %p = msamp.get @p : tensor<1x8x8x4xf32>
  %a = msamp.avg_pool %p <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]> : tensor<1x8x8x4xf32> -> tensor<1x4x4x4xf32>
  %y = arith.mulf %a, %x : tensor<1x4x4x4xf32>
  %loss = msamp.reduce sum %y dims = [0, 1, 2, 3] : tensor<1x4x4x4xf32> -> tensor<f32>
  %dp = msamp.avg_pool_grad %x <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]> : tensor<1x4x4x4xf32> -> tensor<1x8x8x4xf32> loc(#back)
  %g = arith.mulf %dp, %p : tensor<1x8x8x4xf32> loc(#back)
  return %loss, %g : tensor<f32>, tensor<1x8x8x4xf32>
}
#back = loc(fused<"autodiff">["pool"])
