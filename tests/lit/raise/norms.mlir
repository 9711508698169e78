// RUN: msamp-opt %s --msamp-raise-norms | FileCheck %s

// CHECK-LABEL: @rms
// CHECK: %[[Y:.*]], %{{.*}} = msamp.rms_norm %arg0 scale %arg1 : tensor<8xf32> {eps = 9.9999999747524271E-7 : f64}
// CHECK: return %[[Y]]
func.func @rms(%x: tensor<2x4x8xf32>, %w: tensor<8xf32>) -> tensor<2x4x8xf32> {
  %two = arith.constant dense<2.0> : tensor<2x4x8xf32>
  %n = arith.constant dense<0.125> : tensor<2x4x1xf32>
  %eps = arith.constant dense<9.9999999747524271E-7> : tensor<2x4x1xf32>
  %one = arith.constant dense<1.0> : tensor<2x4x1xf32>
  %sq = math.powf %x, %two : tensor<2x4x8xf32>
  %s = msamp.reduce sum %sq dims = [2] : tensor<2x4x8xf32> -> tensor<2x4xf32>
  %s1 = msamp.reshape %s : tensor<2x4xf32> -> tensor<2x4x1xf32>
  %m = arith.mulf %s1, %n : tensor<2x4x1xf32>
  %e = arith.addf %m, %eps : tensor<2x4x1xf32>
  %r = math.sqrt %e : tensor<2x4x1xf32>
  %i = arith.divf %one, %r : tensor<2x4x1xf32>
  %i0 = msamp.reshape %i : tensor<2x4x1xf32> -> tensor<2x4xf32>
  %b = msamp.broadcast %i0 dims = [0, 1] : tensor<2x4xf32> -> tensor<2x4x8xf32>
  %y = arith.mulf %x, %b : tensor<2x4x8xf32>
  %wb = msamp.broadcast %w dims = [2] : tensor<8xf32> -> tensor<2x4x8xf32>
  %z = arith.mulf %wb, %y : tensor<2x4x8xf32>
  return %z : tensor<2x4x8xf32>
}

// CHECK-LABEL: @layer
// CHECK: %[[Y:.*]], %{{.*}}, %{{.*}} = msamp.layer_norm %arg0 scale %arg1 : tensor<8xf32> shift %arg2 : tensor<8xf32> {eps = 9.9999997473787516E-6 : f64}
// CHECK: return %[[Y]]
func.func @layer(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %c: tensor<8xf32>) -> tensor<4x8xf32> {
  %n = arith.constant dense<8.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %s = msamp.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %m = arith.divf %s, %n : tensor<4xf32>
  %mb = msamp.broadcast %m dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %d = arith.subf %x, %mb : tensor<4x8xf32>
  %sq = arith.mulf %d, %d : tensor<4x8xf32>
  %v = msamp.reduce sum %sq dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %vm = arith.divf %v, %n : tensor<4xf32>
  %e = arith.addf %vm, %eps : tensor<4xf32>
  %r = math.sqrt %e : tensor<4xf32>
  %rb = msamp.broadcast %r dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %y = arith.divf %d, %rb : tensor<4x8xf32>
  %wb = msamp.broadcast %w dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %cb = msamp.broadcast %c dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %z = arith.mulf %y, %wb : tensor<4x8xf32>
  %o = arith.addf %z, %cb : tensor<4x8xf32>
  return %o : tensor<4x8xf32>
}

// The mean over another dimension is no norm of rows.
// CHECK-LABEL: @columns
// CHECK-NOT: rms_norm
func.func @columns(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %n = arith.constant dense<0.25> : tensor<8xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<8xf32>
  %sq = arith.mulf %x, %x : tensor<4x8xf32>
  %s = msamp.reduce sum %sq dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %m = arith.mulf %s, %n : tensor<8xf32>
  %e = arith.addf %m, %eps : tensor<8xf32>
  %r = math.rsqrt %e : tensor<8xf32>
  %b = msamp.broadcast %r dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %y = arith.mulf %x, %b : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A value a column for all rows, whose dimensions may be split for the sums; running statistics move on before the result.
// CHECK-LABEL: @batch
// CHECK: %[[Y:.*]], %[[MEAN:.*]], %[[VARIANCE:.*]] = msamp.batch_norm %arg0 scale %arg1 : tensor<8xf32> shift %arg2 : tensor<8xf32> {eps = 9.9999997473787516E-6 : f64} : tensor<6x8xf32>
// CHECK: %[[HALF:.*]] = arith.addf %[[MEAN]], %[[VARIANCE]]
// CHECK: return %[[Y]], %[[HALF]]
func.func @batch(%x: tensor<6x8xf32>, %w: tensor<8xf32>, %c: tensor<8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>) {
  %n = arith.constant dense<6.0> : tensor<8xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<1x8x1xf32>
  %split = msamp.reshape %x : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %s = msamp.reduce sum %split dims = [0, 1] : tensor<2x3x8xf32> -> tensor<8xf32>
  %m = arith.divf %s, %n : tensor<8xf32>
  %mb = msamp.broadcast %m dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %d = arith.subf %x, %mb : tensor<6x8xf32>
  %sq = arith.mulf %d, %d : tensor<6x8xf32>
  %v = msamp.reduce sum %sq dims = [0] : tensor<6x8xf32> -> tensor<8xf32>
  %vm = arith.divf %v, %n : tensor<8xf32>
  %moved = arith.addf %m, %vm : tensor<8xf32>
  %v1 = msamp.reshape %vm : tensor<8xf32> -> tensor<1x8x1xf32>
  %e = arith.addf %v1, %eps : tensor<1x8x1xf32>
  %r = math.sqrt %e : tensor<1x8x1xf32>
  %w1 = msamp.reshape %w : tensor<8xf32> -> tensor<1x8x1xf32>
  %f = arith.divf %w1, %r : tensor<1x8x1xf32>
  %f0 = msamp.reshape %f : tensor<1x8x1xf32> -> tensor<8xf32>
  %fb = msamp.broadcast %f0 dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %y = arith.mulf %d, %fb : tensor<6x8xf32>
  %cb = msamp.broadcast %c dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %o = arith.addf %y, %cb : tensor<6x8xf32>
  return %o, %moved : tensor<6x8xf32>, tensor<8xf32>
}

// By a mean that is given, not by that of the rows.
// CHECK-LABEL: @given
// CHECK-NOT: batch_norm
func.func @given(%x: tensor<6x8xf32>, %m: tensor<8xf32>, %vm: tensor<8xf32>, %w: tensor<8xf32>, %c: tensor<8xf32>) -> tensor<6x8xf32> {
  %eps = arith.constant dense<1.0e-5> : tensor<8xf32>
  %mb = msamp.broadcast %m dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %d = arith.subf %x, %mb : tensor<6x8xf32>
  %e = arith.addf %vm, %eps : tensor<8xf32>
  %r = math.sqrt %e : tensor<8xf32>
  %f = arith.divf %w, %r : tensor<8xf32>
  %fb = msamp.broadcast %f dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %y = arith.mulf %d, %fb : tensor<6x8xf32>
  %cb = msamp.broadcast %c dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %o = arith.addf %y, %cb : tensor<6x8xf32>
  return %o : tensor<6x8xf32>
}

// A shift that is the mean is known after it.
// CHECK-LABEL: @shift_of_mean
// CHECK-NOT: batch_norm
func.func @shift_of_mean(%x: tensor<6x8xf32>, %w: tensor<8xf32>, %c: tensor<8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>) {
  %n = arith.constant dense<6.0> : tensor<8xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<1x8x1xf32>
  %split = msamp.reshape %x : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %s = msamp.reduce sum %split dims = [0, 1] : tensor<2x3x8xf32> -> tensor<8xf32>
  %m = arith.divf %s, %n : tensor<8xf32>
  %mb = msamp.broadcast %m dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %d = arith.subf %x, %mb : tensor<6x8xf32>
  %sq = arith.mulf %d, %d : tensor<6x8xf32>
  %v = msamp.reduce sum %sq dims = [0] : tensor<6x8xf32> -> tensor<8xf32>
  %vm = arith.divf %v, %n : tensor<8xf32>
  %moved = arith.addf %m, %vm : tensor<8xf32>
  %v1 = msamp.reshape %vm : tensor<8xf32> -> tensor<1x8x1xf32>
  %e = arith.addf %v1, %eps : tensor<1x8x1xf32>
  %r = math.sqrt %e : tensor<1x8x1xf32>
  %w1 = msamp.reshape %w : tensor<8xf32> -> tensor<1x8x1xf32>
  %f = arith.divf %w1, %r : tensor<1x8x1xf32>
  %f0 = msamp.reshape %f : tensor<1x8x1xf32> -> tensor<8xf32>
  %fb = msamp.broadcast %f0 dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %y = arith.mulf %d, %fb : tensor<6x8xf32>
  %cb = msamp.broadcast %m dims = [1] : tensor<8xf32> -> tensor<6x8xf32>
  %o = arith.addf %y, %cb : tensor<6x8xf32>
  return %o, %moved : tensor<6x8xf32>, tensor<8xf32>
}
