// A running statistic is FP32 at every level, the micro-step writes it in place, and the evaluation leaves it alone.
// RUN: split-file %s %t
// RUN: msampc %t/model.mlir --compile-from=raise --compile-to=autodiff --level bf16 -o - | FileCheck %s --check-prefix=STEP
// RUN: msampc %t/model.mlir --compile-from=raise --compile-to=optimizer --level bf16 -o - | FileCheck %s --check-prefix=PROGRAMS
// RUN: msampc %t/model.mlir --compile-from=raise --compile-to=schedule --level bf16 -o - | FileCheck %s --check-prefix=PLAN
// RUN: msamp-opt %t/invalid.mlir --split-input-file --verify-diagnostics

// STEP-LABEL: func.func @step
// STEP: msamp.track @mean, %{{.*}} : tensor<48xf32>

// PROGRAMS-LABEL: func.func @micro_step
// PROGRAMS: msamp.get @mean : tensor<48xf32>
// PROGRAMS: msamp.track @mean, %{{.*}} : tensor<48xf32>
// PROGRAMS-LABEL: func.func @eval
// PROGRAMS-NOT: msamp.track
// PROGRAMS-LABEL: func.func @update

// PLAN: plan.program @micro_step
// PLAN: %[[MEAN:.*]] = plan.place weight "mean" : memref<48xf32>
// PLAN: plan.copy({{.*}}) writes(%[[MEAN]])

//--- model.mlir
module attributes {msamp.source = "none", msamp.source_sha256 = ""} {
  msamp.parameter @w : tensor<32x48xf32> matrix {trained = true, init = 0.02}
  msamp.parameter @mean : tensor<48xf32> mean {trained = false, init = 0.02}
  func.func @forward(%x: tensor<64x32xf32> {msamp.name = "x"}) -> (tensor<64x48xf32> {msamp.name = "y"}) {
    %w = msamp.get @w : tensor<32x48xf32>
    %y = msamp.matmul %x, %w : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
    %old = msamp.get @mean : tensor<48xf32>
    %now = msamp.reduce sum %y dims = [0] : tensor<64x48xf32> -> tensor<48xf32>
    %next = arith.addf %old, %now : tensor<48xf32>
    msamp.track @mean, %next : tensor<48xf32>
    return %y : tensor<64x48xf32>
  }
}

//--- invalid.mlir
msamp.parameter @w : tensor<48xf32> bias {trained = true}
func.func @forward(%x: tensor<48xf32>) {
  // expected-error @below {{'msamp.track' op w is no running statistic}}
  msamp.track @w, %x : tensor<48xf32>
  return
}

// -----

msamp.parameter @v : tensor<48xf32> variance {trained = false}
func.func @forward(%x: tensor<48xbf16>) {
  // expected-error @below {{'msamp.track' op a value of type 'tensor<48xbf16>' for parameter type 'tensor<48xf32>'}}
  msamp.track @v, %x : tensor<48xbf16>
  return
}
