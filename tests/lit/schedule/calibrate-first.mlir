// RUN: msamp-opt %s --msamp-lower-to-plan --msamp-calibrate-first --msamp-assign-arenas --msamp-verify-plan | FileCheck %s

// Nothing is quantised with a scale that has no history: the step that computes the amax runs once for it alone.
module {
  msamp.site @own activation f8E4M3FN
  msamp.site @later activation f8E4M3FN
  func.func @micro_step(%x: tensor<8x16xf32> {msamp.name = "x"}) -> (tensor<8x16xf8E4M3FN> {msamp.name = "y"}, tensor<8x16xf8E4M3FN> {msamp.name = "z"}) {
    %s = msamp.site_scale @own : tensor<f32>
    %t = msamp.site_scale @later : tensor<f32>
    %y, %amax = msamp.cluster(%x, %s) {
    ^bb0(%a: tensor<8x16xf32>, %b: tensor<f32>):
      %0 = math.absf %a : tensor<8x16xf32>
      %1 = msamp.reduce max %0 dims = [0, 1] : tensor<8x16xf32> -> tensor<f32>
      %2 = msamp.quantize %a, %b : tensor<8x16xf32>, tensor<f32> -> tensor<8x16xf8E4M3FN>
      msamp.yield %2, %1 : tensor<8x16xf8E4M3FN>, tensor<f32>
    } : (tensor<8x16xf32>, tensor<f32>) -> (tensor<8x16xf8E4M3FN>, tensor<f32>)
    msamp.record_amax @own, %amax : tensor<f32>
    %v, %amax1 = msamp.cluster(%x) {
    ^bb0(%a: tensor<8x16xf32>):
      %0 = arith.addf %a, %a : tensor<8x16xf32>
      %1 = math.absf %0 : tensor<8x16xf32>
      %2 = msamp.reduce max %1 dims = [0, 1] : tensor<8x16xf32> -> tensor<f32>
      msamp.yield %0, %2 : tensor<8x16xf32>, tensor<f32>
    } : (tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<f32>)
    msamp.record_amax @later, %amax1 : tensor<f32>
    %z = msamp.cluster(%v, %t) {
    ^bb0(%a: tensor<8x16xf32>, %b: tensor<f32>):
      %0 = msamp.quantize %a, %b : tensor<8x16xf32>, tensor<f32> -> tensor<8x16xf8E4M3FN>
      msamp.yield %0 : tensor<8x16xf8E4M3FN>
    } : (tensor<8x16xf32>, tensor<f32>) -> tensor<8x16xf8E4M3FN>
    return %y, %z : tensor<8x16xf8E4M3FN>, tensor<8x16xf8E4M3FN>
  }
}
// CHECK:      plan.launch @kernel0 first(
// CHECK-NEXT: plan.calibrate [@own] first(
// CHECK-NEXT: plan.launch @kernel0(
// CHECK:      plan.launch @kernel1(
// CHECK-NEXT: plan.calibrate [@later] first(
// CHECK:      plan.launch @kernel2(
// CHECK-NEXT: plan.record_amax [@own, @later](
