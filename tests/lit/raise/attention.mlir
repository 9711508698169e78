// RUN: msamp-opt %s --msamp-raise-attention | FileCheck %s

msamp.parameter @bias : tensor<3x3xf32> bias {trained = true}

// sqrt(1/4) on q and on k, a causal mask in every batch entry, a guard against NaN.
// CHECK-LABEL: @causal
// CHECK: msamp.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, scale = 2.500000e-01 : f64} : tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>
// CHECK-NOT: msamp.softmax
func.func @causal(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32> {
  %half = arith.constant dense<0.5> : tensor<2x2x3x4xf32>
  %zero = arith.constant dense<0.0> : tensor<2x2x3x3xf32>
  %mask = arith.constant dense<[[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, -1.0e9], [0.0, 0.0, 0.0]],
                                [[0.0, -1.0e5, -3.4e38], [0.0, 0.0, -1.0e9], [0.0, 0.0, 0.0]]]> : tensor<2x3x3xf32>
  %qs = arith.mulf %q, %half : tensor<2x2x3x4xf32>
  %ks = arith.mulf %k, %half : tensor<2x2x3x4xf32>
  %s = msamp.matmul %qs, %ks {transpose_b} : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x3xf32>
  %m = msamp.broadcast %mask dims = [0, 2, 3] : tensor<2x3x3xf32> -> tensor<2x2x3x3xf32>
  %a = arith.addf %s, %m : tensor<2x2x3x3xf32>
  %p = msamp.softmax %a : tensor<2x2x3x3xf32> -> tensor<2x2x3x3xf32>
  %n = arith.cmpf uno, %p, %p : tensor<2x2x3x3xf32>
  %g = arith.select %n, %zero, %p : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %o = msamp.matmul %g, %v : tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>
  return %o : tensor<2x2x3x4xf32>
}

// A mask that is not causal stays as a bias, stored once; scores divided.
// CHECK-LABEL: @window
// CHECK: %[[B:.*]] = arith.constant {{.*}} : tensor<1x1x3x3xf32>
// CHECK: msamp.attention %{{.*}} bias %[[B]] : tensor<1x1x3x3xf32> {scale = 5.000000e-01 : f64}
func.func @window(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32> {
  %two = arith.constant dense<2.0> : tensor<2x2x3x3xf32>
  %mask = arith.constant dense<[[0.0, -1.0e9, 0.0], [0.0, 0.0, 0.0], [-1.0e9, 0.0, 0.0]]> : tensor<3x3xf32>
  %s = msamp.matmul %q, %k {transpose_b} : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x3xf32>
  %d = arith.divf %s, %two : tensor<2x2x3x3xf32>
  %m = msamp.broadcast %mask dims = [2, 3] : tensor<3x3xf32> -> tensor<2x2x3x3xf32>
  %a = arith.addf %m, %d : tensor<2x2x3x3xf32>
  %p = msamp.softmax %a : tensor<2x2x3x3xf32> -> tensor<2x2x3x3xf32>
  %o = msamp.matmul %p, %v : tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>
  return %o : tensor<2x2x3x4xf32>
}

// A condition selects scores or a large negative number.
// CHECK-LABEL: @selected
// CHECK: msamp.attention %{{.*}} {causal, scale = 1.000000e+00 : f64}
func.func @selected(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32> {
  %low = arith.constant dense<-1.0e9> : tensor<2x2x3x3xf32>
  %mask = arith.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %s = msamp.matmul %q, %k {transpose_b} : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x3xf32>
  %m = msamp.broadcast %mask dims = [2, 3] : tensor<3x3xi1> -> tensor<2x2x3x3xi1>
  %a = arith.select %m, %s, %low : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %p = msamp.softmax %a : tensor<2x2x3x3xf32> -> tensor<2x2x3x3xf32>
  %o = msamp.matmul %p, %v : tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>
  return %o : tensor<2x2x3x4xf32>
}

// Padding masks that come as an input are kept as small as they are.
// CHECK-LABEL: @padding
// CHECK: %[[M:.*]] = msamp.broadcast %{{.*}} dims = [0, {{.*}}3] : {{.*}} -> tensor<2x1x3x3xi1>
// CHECK: %[[B:.*]] = arith.select %[[M]]
// CHECK: msamp.attention %{{.*}} bias %[[B]] : tensor<2x1x3x3xf32>
func.func @padding(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>, %keep: tensor<2x3xi1>) -> tensor<2x2x3x4xf32> {
  %low = arith.constant dense<-1.0e9> : tensor<2x2x3x3xf32>
  %s = msamp.matmul %q, %k {transpose_b} : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x3xf32>
  %m = msamp.broadcast %keep dims = [0, 3] : tensor<2x3xi1> -> tensor<2x2x3x3xi1>
  %a = arith.select %m, %s, %low : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %p = msamp.softmax %a : tensor<2x2x3x3xf32> -> tensor<2x2x3x3xf32>
  %o = msamp.matmul %p, %v : tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>
  return %o : tensor<2x2x3x4xf32>
}

// Batch and heads merged, a bias a head, and a lower bound on masked scores.
// CHECK-LABEL: @merged
// CHECK: msamp.attention %{{.*}} bias %{{.*}} : tensor<1x2x2x2xf32> {causal, scale = 5.000000e-01 : f64} : tensor<2x2x2x4xf32>
func.func @merged(%q: tensor<2x2x2x4xf32>, %k: tensor<2x2x2x4xf32>, %v: tensor<4x2x4xf32>) -> tensor<4x2x4xf32> {
  %half = arith.constant dense<0.5> : tensor<4x2x2xf32>
  %least = arith.constant dense<-3.4e38> : tensor<2x2x2x2xf32>
  %alibi = arith.constant dense<[[0.0, 0.5], [0.0, 0.25], [0.0, 0.5], [0.0, 0.25]]> : tensor<4x2xf32>
  %mask = arith.constant dense<[[0.0, -3.4e38], [0.0, 0.0]]> : tensor<2x2xf32>
  %q3 = msamp.reshape %q : tensor<2x2x2x4xf32> -> tensor<4x2x4xf32>
  %k3 = msamp.reshape %k : tensor<2x2x2x4xf32> -> tensor<4x2x4xf32>
  %s = msamp.matmul %q3, %k3 {transpose_b} : tensor<4x2x4xf32>, tensor<4x2x4xf32> -> tensor<4x2x2xf32>
  %d = arith.mulf %s, %half : tensor<4x2x2xf32>
  %b = msamp.broadcast %alibi dims = [0, 2] : tensor<4x2xf32> -> tensor<4x2x2xf32>
  %a = arith.addf %d, %b : tensor<4x2x2xf32>
  %a4 = msamp.reshape %a : tensor<4x2x2xf32> -> tensor<2x2x2x2xf32>
  %m = msamp.broadcast %mask dims = [2, 3] : tensor<2x2xf32> -> tensor<2x2x2x2xf32>
  %c = arith.addf %a4, %m : tensor<2x2x2x2xf32>
  %l = arith.maximumf %c, %least : tensor<2x2x2x2xf32>
  %p = msamp.softmax %l : tensor<2x2x2x2xf32> -> tensor<2x2x2x2xf32>
  %p3 = msamp.reshape %p : tensor<2x2x2x2xf32> -> tensor<4x2x2xf32>
  %o = msamp.matmul %p3, %v : tensor<4x2x2xf32>, tensor<4x2x4xf32> -> tensor<4x2x4xf32>
  return %o : tensor<4x2x4xf32>
}

// Heads repeated for groups are read as groups.
// CHECK-LABEL: @grouped
// CHECK: msamp.attention %arg0, %arg1, %arg2 {scale = 1.000000e+00 : f64} : tensor<2x3x4x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>
func.func @grouped(%q: tensor<2x3x4x4xf32>, %k: tensor<2x3x2x4xf32>, %v: tensor<2x3x2x4xf32>) -> tensor<2x3x4x4xf32> {
  %q1 = msamp.transpose %q perm = [0, 2, 1, 3] : tensor<2x3x4x4xf32> -> tensor<2x4x3x4xf32>
  %k1 = msamp.transpose %k perm = [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %v1 = msamp.transpose %v perm = [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %k2 = msamp.broadcast %k1 dims = [0, 1, 3, 4] : tensor<2x2x3x4xf32> -> tensor<2x2x2x3x4xf32>
  %v2 = msamp.broadcast %v1 dims = [0, 1, 3, 4] : tensor<2x2x3x4xf32> -> tensor<2x2x2x3x4xf32>
  %k3 = msamp.reshape %k2 : tensor<2x2x2x3x4xf32> -> tensor<2x4x3x4xf32>
  %v3 = msamp.reshape %v2 : tensor<2x2x2x3x4xf32> -> tensor<2x4x3x4xf32>
  %s = msamp.matmul %q1, %k3 {transpose_b} : tensor<2x4x3x4xf32>, tensor<2x4x3x4xf32> -> tensor<2x4x3x3xf32>
  %p = msamp.softmax %s : tensor<2x4x3x3xf32> -> tensor<2x4x3x3xf32>
  %o = msamp.matmul %p, %v3 : tensor<2x4x3x3xf32>, tensor<2x4x3x4xf32> -> tensor<2x4x3x4xf32>
  %t = msamp.transpose %o perm = [0, 2, 1, 3] : tensor<2x4x3x4xf32> -> tensor<2x3x4x4xf32>
  return %t : tensor<2x3x4x4xf32>
}

// A trained bias needs a gradient, which attention does not give.
// CHECK-LABEL: @trained_bias
// CHECK: msamp.softmax
// CHECK-NOT: msamp.attention
func.func @trained_bias(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32> {
  %w = msamp.get @bias : tensor<3x3xf32>
  %s = msamp.matmul %q, %k {transpose_b} : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x3xf32>
  %m = msamp.broadcast %w dims = [2, 3] : tensor<3x3xf32> -> tensor<2x2x3x3xf32>
  %a = arith.addf %s, %m : tensor<2x2x3x3xf32>
  %p = msamp.softmax %a : tensor<2x2x3x3xf32> -> tensor<2x2x3x3xf32>
  %o = msamp.matmul %p, %v : tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32> -> tensor<2x2x3x4xf32>
  return %o : tensor<2x2x3x4xf32>
}

// The mask of an attention op that the model file has as such.
// CHECK-LABEL: @masked_op
// CHECK: msamp.attention %arg0, %arg1, %arg2 {causal, scale = 1.000000e+00 : f64}
func.func @masked_op(%q: tensor<2x2x2x4xf32>, %k: tensor<2x2x2x4xf32>, %v: tensor<2x2x2x4xf32>) -> tensor<2x2x2x4xf32> {
  %mask = arith.constant dense<[[[[0.0, -1.0e9], [0.0, 0.0]]], [[[0.0, -1.0e9], [0.0, 0.0]]]]> : tensor<2x1x2x2xf32>
  %o, %lse = msamp.attention %q, %k, %v bias %mask : tensor<2x1x2x2xf32> {scale = 1.0 : f64}
    : tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32>, tensor<2x2x2x4xf32> -> tensor<2x2x2x4xf32>, tensor<2x2x2xf32>
  return %o : tensor<2x2x2x4xf32>
}
