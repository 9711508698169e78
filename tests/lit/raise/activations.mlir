// RUN: msamp-opt %s --msamp-raise-activations | FileCheck %s

// CHECK-LABEL: @erf
// CHECK: %[[G:.*]] = msamp.gelu %arg0 : tensor<8xf32>
// CHECK: return %[[G]]
func.func @erf(%x: tensor<8xf32>) -> tensor<8xf32> {
  %root2 = arith.constant dense<1.41421354> : tensor<8xf32>
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %half = arith.constant dense<0.5> : tensor<8xf32>
  %0 = arith.divf %x, %root2 : tensor<8xf32>
  %1 = math.erf %0 : tensor<8xf32>
  %2 = arith.addf %1, %one : tensor<8xf32>
  %3 = arith.mulf %half, %2 : tensor<8xf32>
  %4 = arith.mulf %x, %3 : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: @tanh
// CHECK: msamp.gelu %arg0 {tanh}
func.func @tanh(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<0.0447149985> : tensor<8xf32>
  %r = arith.constant dense<0.797884583> : tensor<8xf32>
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %half = arith.constant dense<0.5> : tensor<8xf32>
  %three = arith.constant dense<3.0> : tensor<8xf32>
  %h = arith.mulf %x, %half : tensor<8xf32>
  %0 = math.powf %x, %three : tensor<8xf32>
  %1 = arith.mulf %0, %c : tensor<8xf32>
  %2 = arith.addf %x, %1 : tensor<8xf32>
  %3 = arith.mulf %2, %r : tensor<8xf32>
  %4 = math.tanh %3 : tensor<8xf32>
  %5 = arith.addf %4, %one : tensor<8xf32>
  %6 = arith.mulf %h, %5 : tensor<8xf32>
  return %6 : tensor<8xf32>
}

// x (1 + c x^2) sqrt(2/pi), as some models write the inner polynomial; the argument itself is a product.
// CHECK-LABEL: @factored
// CHECK: %[[P:.*]] = arith.mulf %arg0, %arg1
// CHECK: msamp.gelu %[[P]] {tanh}
func.func @factored(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %x = arith.mulf %a, %b : tensor<8xf32>
  %c = arith.constant dense<0.0447149985> : tensor<8xf32>
  %r = arith.constant dense<0.797884583> : tensor<8xf32>
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %half = arith.constant dense<0.5> : tensor<8xf32>
  %0 = arith.mulf %x, %x : tensor<8xf32>
  %1 = arith.mulf %0, %c : tensor<8xf32>
  %2 = arith.addf %1, %one : tensor<8xf32>
  %3 = arith.mulf %x, %r : tensor<8xf32>
  %4 = arith.mulf %3, %2 : tensor<8xf32>
  %5 = math.tanh %4 : tensor<8xf32>
  %6 = arith.addf %5, %one : tensor<8xf32>
  %7 = arith.mulf %6, %x : tensor<8xf32>
  %8 = arith.mulf %7, %half : tensor<8xf32>
  return %8 : tensor<8xf32>
}

// Another constant is another function.
// CHECK-LABEL: @not_gelu
// CHECK-NOT: msamp.gelu
func.func @not_gelu(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<0.9> : tensor<8xf32>
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %half = arith.constant dense<0.5> : tensor<8xf32>
  %0 = arith.mulf %x, %c : tensor<8xf32>
  %1 = math.erf %0 : tensor<8xf32>
  %2 = arith.addf %1, %one : tensor<8xf32>
  %3 = arith.mulf %half, %2 : tensor<8xf32>
  %4 = arith.mulf %x, %3 : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: @swiglu
// CHECK: msamp.swiglu %arg0, %arg1
// CHECK-NEXT: return
func.func @swiglu(%gate: tensor<8xf32>, %up: tensor<8xf32>) -> tensor<8xf32> {
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %0 = arith.negf %gate : tensor<8xf32>
  %1 = math.exp %0 : tensor<8xf32>
  %2 = arith.addf %1, %one : tensor<8xf32>
  %3 = arith.divf %one, %2 : tensor<8xf32>
  %4 = arith.mulf %gate, %3 : tensor<8xf32>
  %5 = arith.mulf %4, %up : tensor<8xf32>
  return %5 : tensor<8xf32>
}

// The exponential of a sigmoid that is no swiglu stays finite, so that its gradient is 0 and not NaN far from 0.
// CHECK-LABEL: @sigmoid
// CHECK: %[[N:.*]] = arith.negf %arg0
// CHECK: %[[B:.*]] = arith.minimumf %[[N]], %{{.*}} : tensor<8xf32>
// CHECK: math.exp %[[B]]
func.func @sigmoid(%x: tensor<8xf32>) -> tensor<8xf32> {
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %0 = arith.negf %x : tensor<8xf32>
  %1 = math.exp %0 : tensor<8xf32>
  %2 = arith.addf %1, %one : tensor<8xf32>
  %3 = arith.divf %one, %2 : tensor<8xf32>
  return %3 : tensor<8xf32>
}

// An exponential in other places keeps its range.
// CHECK-LABEL: @exponential
// CHECK-NOT: arith.minimumf
func.func @exponential(%x: tensor<8xf32>) -> tensor<8xf32> {
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %1 = math.exp %x : tensor<8xf32>
  %2 = arith.addf %1, %one : tensor<8xf32>
  return %2 : tensor<8xf32>
}
