// RUN: msamp-opt %s --msamp-add-loss --msamp-verify-phase=phase=loss | FileCheck %s --check-prefix=CE
// RUN: msamp-opt %s --msamp-add-loss=loss=mse --msamp-verify-phase=phase=loss | FileCheck %s --check-prefix=MSE
// RUN: msamp-opt %s --msamp-add-loss="loss=bce labels=y" --msamp-verify-phase=phase=loss | FileCheck %s --check-prefix=BCE
// RUN: msamp-opt %s --msamp-add-loss=loss=output:score --msamp-verify-phase=phase=loss | FileCheck %s --check-prefix=OUT

// CE: module attributes {msamp.loss = "cross-entropy"}
// CE: func.func @forward(%arg0: tensor<2x3x5xf32> {msamp.name = "x"}, %arg1: tensor<2x3xi64> {msamp.labels, msamp.name = "labels"})
// CE-SAME: -> (tensor<f32> {msamp.name = "loss"}, tensor<2x3x5xf32> {msamp.name = "logits"}, tensor<1x1xf32> {msamp.name = "score"})
// CE-DAG: %[[X:.*]] = msamp.reshape %arg0 : tensor<2x3x5xf32> -> tensor<6x5xf32>
// CE-DAG: %[[Y:.*]] = msamp.reshape %arg1 : tensor<2x3xi64> -> tensor<6xi64>
// CE: %[[L:.*]], %{{.*}}, %{{.*}} = msamp.cross_entropy %[[X]], %[[Y]] {ignore_index = -100 : i64}
// CE: return %[[L]], %arg0

// MSE: module attributes {msamp.loss = "mse"}
// MSE: %arg1: tensor<2x3x5xf32> {msamp.labels, msamp.name = "labels"}
// MSE: %[[D:.*]] = arith.subf %arg0, %arg1
// MSE: arith.mulf %[[D]], %[[D]]
// MSE: msamp.reduce sum %{{.*}} dims = [0, 1, 2]
// MSE: dense<0.0333333351>

// BCE: %arg1: tensor<2x3x5xf32> {msamp.labels, msamp.name = "y"}
// |x| is max(x, -x), for the slope at 0.
// BCE: %[[N:.*]] = arith.negf %arg0
// BCE: arith.maximumf %arg0, %[[N]]
// BCE: math.log1p

// OUT: func.func @forward(%arg0: tensor<2x3x5xf32> {msamp.name = "x"})
// OUT-SAME: -> (tensor<f32> {msamp.name = "loss"}, tensor<2x3x5xf32> {msamp.name = "logits"})
// OUT: msamp.reshape %{{.*}} : tensor<1x1xf32> -> tensor<f32>
func.func @forward(%x: tensor<2x3x5xf32> {msamp.name = "x"})
    -> (tensor<2x3x5xf32> {msamp.name = "logits"}, tensor<1x1xf32> {msamp.name = "score"}) {
  %0 = msamp.reduce sum %x dims = [0, 1, 2] : tensor<2x3x5xf32> -> tensor<f32>
  %1 = msamp.reshape %0 : tensor<f32> -> tensor<1x1xf32>
  return %x, %1 : tensor<2x3x5xf32>, tensor<1x1xf32>
}
