// RUN: msamp-opt %s --msamp-differentiate --canonicalize --cse --split-input-file | FileCheck %s

msamp.parameter @w : tensor<4x8xf32> matrix {trained = true}
msamp.parameter @s : tensor<8xf32> scale {trained = true}

// CHECK-LABEL: func.func @step
// CHECK: %[[W:.*]] = msamp.get @w
// CHECK: %[[S:.*]] = msamp.get @s
// CHECK: %{{.*}}, %[[RSTD:.*]] = msamp.rms_norm %[[W]] scale %[[S]]
// CHECK: %[[R:.*]] = msamp.broadcast %[[RSTD]] dims = [0]
// CHECK: %[[H:.*]] = arith.mulf %[[W]], %[[R]]
// CHECK: %[[SB:.*]] = msamp.broadcast %[[S]] dims = [1]
// CHECK: %[[G:.*]] = {{.*}}%[[SB]]
// CHECK: %[[GH:.*]] = arith.mulf %{{.*}}, %[[H]]
// CHECK: %[[M:.*]] = msamp.reduce sum %[[GH]] dims = [1]
// CHECK: arith.mulf %[[M]], %{{.*}} : tensor<4xf32>
// CHECK: arith.subf
// CHECK: %[[DW:.*]] = arith.mulf %{{.*}}, %[[R]]
// CHECK: %[[DS:.*]] = msamp.reduce sum %{{.*}} dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
// CHECK: return %{{.*}}, %[[DW]], %[[DS]]
func.func @forward(%x: tensor<4x8xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w = msamp.get @w : tensor<4x8xf32>
  %s = msamp.get @s : tensor<8xf32>
  %y, %rstd = msamp.rms_norm %w scale %s : tensor<8xf32> {eps = 1.0e-6 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4xf32>
  %z = arith.mulf %y, %x : tensor<4x8xf32>
  %loss = msamp.reduce sum %z dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

msamp.parameter @w : tensor<4x8xf32> matrix {trained = true}

// (softmax - onehot) of the rows that count, by the number of them.
// CHECK-LABEL: func.func @step
// CHECK-DAG: %[[IGNORE:.*]] = arith.constant dense<-100> : tensor<4xi64>
// CHECK: %{{.*}}, %[[LSE:.*]], %[[VALID:.*]] = msamp.cross_entropy %[[W:.*]], %arg0
// CHECK: %[[L:.*]] = msamp.broadcast %[[LSE]] dims = [0]
// CHECK: %[[C:.*]] = arith.subf %[[W]], %[[L]]
// CHECK: %[[P:.*]] = math.exp %[[C]]
// CHECK: %[[I:.*]] = msamp.iota dim = 1 : tensor<4x8xi64>
// CHECK: %[[Y:.*]] = msamp.broadcast %arg0 dims = [0]
// CHECK: %[[HIT:.*]] = arith.cmpi eq, %[[I]], %[[Y]]
// CHECK: %[[ONE:.*]] = arith.select %[[HIT]]
// CHECK: %[[COUNTS:.*]] = arith.cmpi ne, %arg0, %[[IGNORE]]
// CHECK: arith.divf %{{.*}}, %[[VALID]]
// CHECK: arith.select %[[COUNTS]]
// CHECK: %[[D:.*]] = arith.subf %[[P]], %[[ONE]]
// CHECK: arith.mulf %[[D]]
func.func @forward(%y: tensor<4xi64> {msamp.name = "labels"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w = msamp.get @w : tensor<4x8xf32>
  %loss, %lse, %valid = msamp.cross_entropy %w, %y {ignore_index = -100 : i64} : tensor<4x8xf32>, tensor<4xi64> -> tensor<f32>, tensor<4xf32>, tensor<f32>
  return %loss : tensor<f32>
}

// -----

msamp.parameter @q : tensor<1x4x2x8xf32> matrix {trained = true}

// CHECK-LABEL: func.func @step
// CHECK: %[[O:.*]], %[[LSE:.*]] = msamp.attention %[[Q:.*]], %arg0, %arg0 {causal, scale = 2.500000e-01 : f64}
// CHECK: %[[DR:.*]], %{{.*}}, %{{.*}} = msamp.attention_grad %{{.*}}, %[[R:.*]], %arg0, %arg0, %[[O]], %[[LSE]] {causal, scale = 2.500000e-01 : f64}
// CHECK: msamp.rotary %[[DR]], %arg1, %arg1 {transposed}
func.func @forward(%k: tensor<1x4x2x8xf32> {msamp.name = "k"}, %c: tensor<1x4x2x8xf32> {msamp.name = "c"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %q = msamp.get @q : tensor<1x4x2x8xf32>
  %r = msamp.rotary %q, %c, %c : tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> -> tensor<1x4x2x8xf32>
  %o, %lse = msamp.attention %r, %k, %k {causal, scale = 0.25 : f64}
    : tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32> -> tensor<1x4x2x8xf32>, tensor<1x2x4xf32>
  %loss = msamp.reduce sum %o dims = [0, 1, 2, 3] : tensor<1x4x2x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

msamp.parameter @w : tensor<6x8xf32> matrix {trained = true}
msamp.parameter @s : tensor<8xf32> scale {trained = true}
msamp.parameter @b : tensor<8xf32> shift {trained = true}

// Sums of columns first, and then what depends on them; x - mean is for each kernel to compute.
// CHECK-LABEL: func.func @step
// CHECK: %{{.*}}, %[[MEAN:.*]], %[[VARIANCE:.*]] = msamp.batch_norm %[[W:.*]] scale
// CHECK: %[[MB:.*]] = msamp.broadcast %[[MEAN]] dims = [1]
// CHECK: %[[SHIFTED:.*]] = arith.addf %[[VARIANCE]]
// CHECK: %[[DEVIATION:.*]] = math.sqrt %[[SHIFTED]]
// CHECK: %[[C:.*]] = arith.subf %[[W]], %[[MB]] {msamp.repeated}
// CHECK: %[[SUM:.*]] = msamp.reduce sum %[[DY:.*]] dims = [0] : tensor<6x8xf32> -> tensor<8xf32>
// CHECK: %[[DYC:.*]] = arith.mulf %[[DY]], %[[C]]
// CHECK: %[[PROJECTION:.*]] = msamp.reduce sum %[[DYC]] dims = [0]
// CHECK: %[[PROJECTED:.*]] = arith.mulf %[[C]], %{{.*}} : tensor<6x8xf32>
// CHECK: %[[CENTRED:.*]] = arith.subf %{{.*}}, %[[PROJECTED]] : tensor<6x8xf32>
// CHECK: %[[DW:.*]] = arith.mulf %[[CENTRED]], %{{.*}} : tensor<6x8xf32>
// CHECK: %[[DS:.*]] = arith.divf %[[PROJECTION]], %[[DEVIATION]]
// CHECK: return %{{.*}}, %[[DW]], %[[DS]], %[[SUM]]
func.func @forward(%x: tensor<6x8xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w = msamp.get @w : tensor<6x8xf32>
  %s = msamp.get @s : tensor<8xf32>
  %b = msamp.get @b : tensor<8xf32>
  %y, %mean, %variance = msamp.batch_norm %w scale %s : tensor<8xf32> shift %b : tensor<8xf32> {eps = 1.0e-5 : f64} : tensor<6x8xf32> -> tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>
  %z = arith.mulf %y, %x : tensor<6x8xf32>
  %loss = msamp.reduce sum %z dims = [0, 1] : tensor<6x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

msamp.parameter @w : tensor<4x8xf32> matrix {trained = true}

// relu's result, which the next op keeps, tells what its operand was.
// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.*]] = arith.maximumf
// CHECK: %[[POSITIVE:.*]] = arith.cmpf ogt, %[[Y]], %{{.*}} : tensor<4x8xf32>
// CHECK: arith.select %[[POSITIVE]]
func.func @forward(%x: tensor<4x8xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w = msamp.get @w : tensor<4x8xf32>
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %y = arith.maximumf %w, %zero : tensor<4x8xf32>
  %z = arith.mulf %y, %x : tensor<4x8xf32>
  %loss = msamp.reduce sum %z dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

msamp.parameter @w : tensor<4x8xf32> matrix {trained = true}

// Rounded to BF16 a result of 0.7 is below 0.7: the operand tells.
// CHECK-LABEL: func.func @step
// CHECK: %[[W:.*]] = msamp.get @w
// CHECK: arith.cmpf olt, %[[W]], %{{.*}} : tensor<4x8xf32>
func.func @forward(%x: tensor<4x8xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w = msamp.get @w : tensor<4x8xf32>
  %bound = arith.constant dense<0.7> : tensor<4x8xf32>
  %y = arith.minimumf %w, %bound : tensor<4x8xf32>
  %z = arith.mulf %y, %x : tensor<4x8xf32>
  %loss = msamp.reduce sum %z dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
