// State classes by level, and why a matrix stays plain.
// RUN: msamp-opt %s --msamp-assign-state-classes="level=O2" --remarks-filter=precision 2>&1 | FileCheck %s
// RUN: msamp-opt %s --msamp-assign-state-classes="level=bf16" | FileCheck %s --check-prefix=HALF
// RUN: msamp-opt %s --msamp-assign-state-classes="level=O2 fp8-head" --remarks-filter=precision 2>&1 | FileCheck %s --check-prefix=HEAD
// RUN: not msamp-opt %s --msamp-assign-state-classes="level=bf16 fp8-head" 2>&1 | FileCheck %s --check-prefix=NOFP8
// RUN: not msamp-opt %s --msamp-assign-state-classes="level=O4" 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not msamp-opt %s --msamp-assign-state-classes="level=O1 recipe=guess" 2>&1 | FileCheck %s --check-prefix=RECIPE

// CHECK-DAG: [Missed] fp8-weight | Category:precision | Remark="odd kept in BF16: N = 50 is not a multiple of 16"
// CHECK-DAG: [Passed] fp8-weight | Category:precision | Remark="even: FP8 GEMMs and scaled state"
// CHECK-DAG: [Missed] fp8-weight | Category:precision | Remark="head kept in BF16: its product is the head"
// CHECK-DAG: [Missed] fp8-weight | Category:precision | Remark="looked_up kept in BF16: it is read by msamp.gather"
// CHECK: module attributes {msamp.accumulate = 1 : i64, msamp.level = "O2", msamp.recipe = "delayed"}
// CHECK-DAG: msamp.parameter @odd {{.*}}state_class = 0
// CHECK-DAG: msamp.parameter @even {{.*}}state_class = 1
// CHECK-DAG: msamp.parameter @head {{.*}}state_class = 0
// CHECK-DAG: msamp.parameter @bias {{.*}}state_class = 0
// CHECK-DAG: msamp.parameter @looked_up {{.*}}state_class = 0
// CHECK-DAG: msamp.parameter @frozen : tensor<32x32xf32> matrix {trained = false}
// HALF-COUNT-5: state_class = 0
// HEAD-DAG: [Passed] fp8-weight | Category:precision | Remark="head: FP8 GEMMs and scaled state"
// HEAD-DAG: msamp.parameter @head {{.*}}state_class = 1
// NOFP8: error: an FP8 head needs a level with FP8 GEMMs (O1, O2, O3), not bf16
// LEVEL: error: level 'O4' is none of fp32, bf16, O1, O2, O3
// RECIPE: error: recipe 'guess' is none of delayed, current, rowwise, block
module {
  msamp.parameter @odd : tensor<32x50xf32> matrix {trained = true}
  msamp.parameter @even : tensor<32x32xf32> matrix {trained = true}
  msamp.parameter @frozen : tensor<32x32xf32> matrix {trained = false}
  msamp.parameter @head : tensor<32x48xf32> matrix {trained = true}
  msamp.parameter @bias : tensor<48xf32> bias {trained = true}
  msamp.parameter @looked_up : tensor<32x32xf32> matrix {trained = true}
  func.func @step(%x: tensor<16x32xf32> {msamp.name = "x"}, %labels: tensor<16xi64> {msamp.name = "labels"},
                  %at: tensor<16xi64> {msamp.name = "at"}) -> (tensor<f32> {msamp.name = "loss"}, tensor<16x50xf32> {msamp.name = "o"}) {
    %odd = msamp.get @odd : tensor<32x50xf32>
    %even = msamp.get @even : tensor<32x32xf32>
    %frozen = msamp.get @frozen : tensor<32x32xf32>
    %head = msamp.get @head : tensor<32x48xf32>
    %bias = msamp.get @bias : tensor<48xf32>
    %table = msamp.get @looked_up : tensor<32x32xf32>
    %a = msamp.matmul %x, %even : tensor<16x32xf32>, tensor<32x32xf32> -> tensor<16x32xf32>
    %n, %r = msamp.rms_norm %a {eps = 1.0e-5 : f64} : tensor<16x32xf32> -> tensor<16x32xf32>, tensor<16xf32>
    %o = msamp.matmul %n, %odd : tensor<16x32xf32>, tensor<32x50xf32> -> tensor<16x50xf32>
    %f = msamp.matmul %n, %frozen {transpose_b} : tensor<16x32xf32>, tensor<32x32xf32> -> tensor<16x32xf32>
    %e = msamp.gather %table at %at axis = 0 : tensor<32x32xf32>, tensor<16xi64> -> tensor<16x32xf32>
    %g = arith.addf %f, %e : tensor<16x32xf32>
    %h, %r2 = msamp.rms_norm %g {eps = 1.0e-5 : f64} : tensor<16x32xf32> -> tensor<16x32xf32>, tensor<16xf32>
    %l = msamp.matmul %h, %head : tensor<16x32xf32>, tensor<32x48xf32> -> tensor<16x48xf32>
    %b = msamp.broadcast %bias dims = [1] : tensor<48xf32> -> tensor<16x48xf32>
    %logits = arith.addf %l, %b : tensor<16x48xf32>
    %loss, %lse, %valid = msamp.cross_entropy %logits, %labels {ignore_index = -100 : i64} : tensor<16x48xf32>, tensor<16xi64> -> tensor<f32>, tensor<16xf32>, tensor<f32>
    return %loss, %o : tensor<f32>, tensor<16x50xf32>
  }
}
