// What one loop nest computes is one cluster; what it cannot, or must not, is several.
// RUN: msamp-opt %s --msamp-form-clusters | FileCheck %s

// A reduction over rows, what follows it, and what reads the same tensor: one kernel.
// CHECK-LABEL: func.func @rows_and_columns
// CHECK-COUNT-1: msamp.cluster
// CHECK-NOT: msamp.cluster
// CHECK: return
func.func @rows_and_columns(%x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32xf32>) {
  %m = msamp.reduce max %x dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %b = msamp.broadcast %m dims = [0] : tensor<64xf32> -> tensor<64x32xf32>
  %y = arith.subf %x, %b : tensor<64x32xf32>
  %c = msamp.reduce sum %x dims = [0] : tensor<64x32xf32> -> tensor<32xf32>
  return %y, %c : tensor<64x32xf32>, tensor<32xf32>
}

// The amax of a whole tensor is known only when its kernel has ended: current scaling takes two.
// CHECK-LABEL: func.func @current
// CHECK: %[[A:.*]] = msamp.cluster(%arg0)
// CHECK: msamp.reduce max
// CHECK: %[[Q:.*]] = msamp.cluster
// CHECK: msamp.scale_of
// CHECK: msamp.quantize
// CHECK: return %[[Q]]
func.func @current(%x: tensor<128x128xf32>) -> tensor<128x128xf8E4M3FN> {
  %a = math.absf %x : tensor<128x128xf32>
  %m = msamp.reduce max %a dims = [0, 1] : tensor<128x128xf32> -> tensor<f32>
  %s = msamp.scale_of %m f8E4M3FN : tensor<f32> -> tensor<f32>
  %q = msamp.quantize %x, %s : tensor<128x128xf32>, tensor<f32> -> tensor<128x128xf8E4M3FN>
  return %q : tensor<128x128xf8E4M3FN>
}

// A path through a library call keeps what is before it apart from what is after it, though both read %x.
// CHECK-LABEL: func.func @no_cycle
// CHECK: msamp.cluster
// CHECK: msamp.matmul
// CHECK: msamp.cluster
// CHECK: return
func.func @no_cycle(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>) {
  %n = arith.negf %x : tensor<64x64xf32>
  %p = msamp.matmul %n, %n : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %y = arith.addf %p, %x : tensor<64x64xf32>
  %z = arith.mulf %y, %n : tensor<64x64xf32>
  return %z : tensor<64x64xf32>
}

// The backward does not join the forward's cluster, or what it rebuilds would be kept after all.
// CHECK-LABEL: func.func @sides
// CHECK: msamp.cluster(%arg0) {
// CHECK: math.exp
// CHECK: msamp.cluster(%arg0) {
// CHECK: math.exp
func.func @sides(%x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
  %a = math.exp %x : tensor<64x64xf32>
  %b = math.exp %x {msamp.backward} : tensor<64x64xf32>
  %c = arith.mulf %b, %b {msamp.backward} : tensor<64x64xf32>
  return %a, %c : tensor<64x64xf32>, tensor<64x64xf32>
}

// Scales of weights are known from the start: one kernel computes those of all layers.
msamp.parameter @v : tensor<32x32xf32> matrix {trained = true}
msamp.parameter @w : tensor<32x32xf32> matrix {trained = true}
// CHECK-LABEL: func.func @weight_scales
// CHECK: %[[S:.*]]:2 = msamp.cluster
// CHECK-COUNT-2: msamp.scale_of
// CHECK-NOT: msamp.cluster
// CHECK: msamp.scaled_matmul %arg0, %arg1 scales %{{.*}}, %[[S]]#0
// CHECK: msamp.scaled_matmul %arg0, %arg1 scales %{{.*}}, %[[S]]#1
func.func @weight_scales(%x: tensor<32x32xf8E4M3FN>, %q: tensor<32x32xf8E4M3FN>, %sx: tensor<f32>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>) {
  %a = msamp.get_amax @v : tensor<f32>
  %s = msamp.scale_of %a f8E4M3FN : tensor<f32> -> tensor<f32>
  %y = msamp.scaled_matmul %x, %q scales %sx, %s : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<32x32xbf16>
  %b = msamp.get_amax @w : tensor<f32>
  %t = msamp.scale_of %b f8E4M3FN : tensor<f32> -> tensor<f32>
  %z = msamp.scaled_matmul %x, %q scales %sx, %t : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<32x32xbf16>
  return %y, %z : tensor<32x32xbf16>, tensor<32x32xbf16>
}

// What says so is computed by each kernel that reads it: only the sums leave the first one.
// CHECK-LABEL: func.func @repeated
// CHECK: %[[SUM:.*]] = msamp.cluster(%{{.*}}, %{{.*}}) {
// CHECK: arith.subf
// CHECK: msamp.yield %{{.*}} : tensor<32xf32>
// CHECK: msamp.cluster({{.*}}%[[SUM]]{{.*}}) {
// CHECK: arith.subf
func.func @repeated(%x: tensor<64x32xf32>, %m: tensor<32xf32>) -> tensor<64x32xf32> {
  %mb = msamp.broadcast %m dims = [1] : tensor<32xf32> -> tensor<64x32xf32>
  %d = arith.subf %x, %mb {msamp.repeated} : tensor<64x32xf32>
  %s = msamp.reduce sum %d dims = [0] : tensor<64x32xf32> -> tensor<32xf32>
  %sb = msamp.broadcast %s dims = [1] : tensor<32xf32> -> tensor<64x32xf32>
  %y = arith.mulf %d, %sb : tensor<64x32xf32>
  return %y : tensor<64x32xf32>
}
