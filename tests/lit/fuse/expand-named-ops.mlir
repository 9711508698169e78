// Named ops become reductions, broadcasts and pointwise math; reductions that no loop nest holds are split.
// RUN: msamp-opt %s --msamp-expand-named-ops | FileCheck %s

// CHECK-LABEL: func.func @softmax
// CHECK: %[[M:.*]] = msamp.reduce max %arg0 dims = [1]
// CHECK: %[[B:.*]] = msamp.broadcast %[[M]] dims = [0]
// CHECK: %[[C:.*]] = arith.subf %arg0, %[[B]]
// CHECK: %[[E:.*]] = math.exp %[[C]]
// CHECK: %[[S:.*]] = msamp.reduce sum %[[E]] dims = [1]
// CHECK: arith.divf %{{.*}}, %[[S]]
// CHECK-NOT: msamp.softmax
func.func @softmax(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %y = msamp.softmax %x : tensor<8x16xf32> -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}

// By the logistic function, which both directions share.
// CHECK-LABEL: func.func @gelu
// CHECK: %[[P:.*]] = math.exp2
// CHECK: %[[D:.*]] = arith.addf %[[P]]
// CHECK: %[[S:.*]] = arith.divf %{{.*}}, %[[D]] fastmath<arcp>
// CHECK: arith.mulf %arg0, %[[S]]
// CHECK-NOT: math.tanh
func.func @gelu(%x: tensor<8x16xf32>, %dy: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %y = msamp.gelu %x {tanh} : tensor<8x16xf32> -> tensor<8x16xf32>
  %dx = msamp.gelu_grad %dy, %x {tanh} : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  return %y, %dx : tensor<8x16xf32>, tensor<8x16xf32>
}

// The statistics stay results; x narrower than FP32 is widened first.
// CHECK-LABEL: func.func @norm
// CHECK: %[[X:.*]] = arith.extf %arg0
// CHECK: msamp.reduce sum %[[X]] dims = [1]
// CHECK: math.sqrt
// CHECK: %[[R:.*]] = arith.divf
// CHECK: return %{{.*}}, %{{.*}}, %[[R]]
func.func @norm(%x: tensor<8x16xbf16>, %g: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>) {
  %y, %m, %r = msamp.layer_norm %x scale %g : tensor<16xf32> {eps = 1.0e-5} : tensor<8x16xbf16> -> tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>
  return %y, %m, %r : tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>
}

// What narrows a rotary's result narrows its halves, so that the concat is stored as it is.
// CHECK-LABEL: func.func @rotary
// CHECK-COUNT-2: arith.truncf
// CHECK: %[[Y:.*]] = msamp.concat %{{.*}}, %{{.*}} dim = 3 : tensor<1x4x2x4xbf16>, tensor<1x4x2x4xbf16> -> tensor<1x4x2x8xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @rotary(%x: tensor<1x4x2x8xf32>, %c: tensor<1x4x2x8xf32>, %s: tensor<1x4x2x8xf32>) -> tensor<1x4x2x8xbf16> {
  %y = msamp.rotary %x, %c, %s : tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> -> tensor<1x4x2x8xf32>
  %t = arith.truncf %y : tensor<1x4x2x8xf32> to tensor<1x4x2x8xbf16>
  return %t : tensor<1x4x2x8xbf16>
}

// CHECK-LABEL: func.func @inner_and_outer
// CHECK: %[[I:.*]] = msamp.reduce sum %arg0 dims = [2] : tensor<6x5x18xf32> -> tensor<6x5xf32>
// CHECK: msamp.reduce sum %[[I]] dims = [0] : tensor<6x5xf32> -> tensor<5xf32>
func.func @inner_and_outer(%x: tensor<6x5x18xf32>) -> tensor<5xf32> {
  %y = msamp.reduce sum %x dims = [0, 2] : tensor<6x5x18xf32> -> tensor<5xf32>
  return %y : tensor<5xf32>
}

// Both sums of a column are of distances from the first row, which is read where it lies.
// CHECK-LABEL: func.func @columns
// CHECK: %[[ROW:.*]] = msamp.slice %arg0 starts = [0, 0] strides = [1, 1] {msamp.in_memory} : tensor<8x16xbf16> -> tensor<1x16xbf16>
// CHECK: %[[D:.*]] = arith.subf
// CHECK: %[[SUM:.*]] = msamp.reduce sum %[[D]] dims = [0]
// CHECK: %[[SQ:.*]] = arith.mulf %[[D]], %[[D]]
// CHECK: msamp.reduce sum %[[SQ]] dims = [0]
// CHECK: arith.maximumf
func.func @columns(%x: tensor<8x16xbf16>, %g: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %wide = arith.extf %x : tensor<8x16xbf16> to tensor<8x16xf32>
  %y, %m, %v = msamp.batch_norm %wide scale %g : tensor<16xf32> shift %b : tensor<16xf32> {eps = 1.0e-5 : f64} : tensor<8x16xf32> -> tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>
  return %y, %m, %v : tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>
}
