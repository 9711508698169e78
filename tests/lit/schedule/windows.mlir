// RUN: msamp-opt %s --msamp-lower-to-plan | FileCheck %s

// Filters lie row-major, channels last, so a parameter is copied into that order once; its gradient is turned back where it is
// stored. Operations are multiply-adds counted as two.
msamp.parameter @f : tensor<8x3x3x3xf32> filter {trained = true}

// CHECK: plan.program @micro_step
// CHECK-DAG: %[[X:.*]] = plan.place input "x" : memref<2x8x8x3xf32>
// CHECK-DAG: %[[W:.*]] = plan.place weight "f" : memref<8x3x3x3xf32>
// CHECK-DAG: %[[TURNED:.*]] = plan.view %[[W]] at 0 : memref<8x3x3x3xf32> -> memref<8x3x3x3xf32, strided<[27, 3, 1, 9]>>
// CHECK:      plan.copy(%[[TURNED]]) writes(%[[F:[0-9]+]]) {{.*}}memref<8x3x3x3xf32
// CHECK-NEXT: plan.conv <[3, 3] by[2, 2] low[1, 1] high[0, 0] dilated[1, 1]> groups 1(%[[X]], %[[F]]) writes(%[[Y:[0-9]+]]) {bytes = {{.*}}, flops = 13824 : i64}
// CHECK-NEXT: plan.max_pool {{.*}}(%[[Y]]) writes(%[[M:[0-9]+]], %[[TAP:[0-9]+]]) {{.*}} -> (memref<2x2x2x8xf32>, memref<2x2x2x8xui8>)
// CHECK-NEXT: plan.avg_pool {{.*}}(%[[M]]) writes(%{{.*}}) {{.*}}count_padding
// CHECK-NEXT: plan.avg_pool_grad {{.*}}count_padding
// CHECK-NEXT: plan.max_pool_grad {{.*}}(%{{.*}}, %[[TAP]]) writes(%[[DY:[0-9]+]])
// CHECK-NEXT: plan.conv_wgrad {{.*}}(%[[X]], %[[DY]]) {{.*}}flops = 13824 : i64
// CHECK-NEXT: plan.conv_dgrad {{.*}}(%[[DY]], %[[F]]) {{.*}}flops = 13824 : i64
// CHECK-NEXT: plan.copy({{.*}}strided<[27, 1, 9, 3]>
func.func @micro_step(%x: tensor<2x8x8x3xf32> {msamp.name = "x"}) -> (tensor<2x1x1x8xf32> {msamp.name = "y"}, tensor<2x8x8x3xf32> {msamp.name = "dx"}) {
  %w = msamp.get @f : tensor<8x3x3x3xf32>
  %f = msamp.transpose %w perm = [0, 2, 3, 1] : tensor<8x3x3x3xf32> -> tensor<8x3x3x3xf32>
  %y = msamp.conv %x, %f <[3, 3] by [2, 2] low [1, 1] high [0, 0] dilated [1, 1]> groups 1
      : tensor<2x8x8x3xf32>, tensor<8x3x3x3xf32> -> tensor<2x4x4x8xf32>
  %m, %tap = msamp.max_pool %y <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]>
      : tensor<2x4x4x8xf32> -> tensor<2x2x2x8xf32>, tensor<2x2x2x8xui8>
  %a = msamp.avg_pool %m <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]> {count_padding} : tensor<2x2x2x8xf32> -> tensor<2x1x1x8xf32>
  %dm = msamp.avg_pool_grad %a <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]> {count_padding} : tensor<2x1x1x8xf32> -> tensor<2x2x2x8xf32>
  %dy = msamp.max_pool_grad %dm, %tap <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]>
      : tensor<2x2x2x8xf32>, tensor<2x2x2x8xui8> -> tensor<2x4x4x8xf32>
  %df = msamp.conv_wgrad %x, %dy <[3, 3] by [2, 2] low [1, 1] high [0, 0] dilated [1, 1]> groups 1
      : tensor<2x8x8x3xf32>, tensor<2x4x4x8xf32> -> tensor<8x3x3x3xf32>
  %dx = msamp.conv_dgrad %dy, %f <[3, 3] by [2, 2] low [1, 1] high [0, 0] dilated [1, 1]> groups 1
      : tensor<2x4x4x8xf32>, tensor<8x3x3x3xf32> -> tensor<2x8x8x3xf32>
  %g = msamp.transpose %df perm = [0, 3, 1, 2] : tensor<8x3x3x3xf32> -> tensor<8x3x3x3xf32>
  msamp.store_grad @f, %g : tensor<8x3x3x3xf32>
  return %a, %dx : tensor<2x1x1x8xf32>, tensor<2x8x8x3xf32>
}
