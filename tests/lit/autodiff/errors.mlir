// Every op without a rule on the path is reported, with its node; those off the path are not.
// RUN: not msamp-opt %s --msamp-differentiate 2>&1 | FileCheck %s

// CHECK: no derivative rule for math.asinh of ONNX node 'first', which lies between a trained parameter and the loss; freeze the parameters before it with --freeze or add a rule
// CHECK: no derivative rule for math.acosh of ONNX node 'second'
// CHECK: no derivative rule for the bias of attention node 'scores', which depends on a trained parameter; freeze that parameter with --freeze
// CHECK-NOT: no derivative
msamp.parameter @w : tensor<1x1x2x2xf32> matrix {trained = true}
func.func @forward(%x: tensor<1x2x1x2xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
  %w = msamp.get @w : tensor<1x1x2x2xf32>
  %a = math.asinh %w : tensor<1x1x2x2xf32> loc("first")
  %b = math.acosh %a : tensor<1x1x2x2xf32> loc("second")
  %c = math.asinh %x : tensor<1x2x1x2xf32> loc("off the path")
  %o, %lse = msamp.attention %c, %x, %x bias %b : tensor<1x1x2x2xf32> {scale = 1.0 : f64}
    : tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xf32> -> tensor<1x2x1x2xf32>, tensor<1x1x2xf32> loc("scores")
  %loss = msamp.reduce sum %o dims = [0, 1, 2, 3] : tensor<1x2x1x2xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
