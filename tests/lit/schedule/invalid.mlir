// RUN: msamp-opt %s --msamp-lower-to-plan --msamp-calibrate-first --split-input-file --verify-diagnostics

func.func @micro_step(%x: tensor<4xf32> {msamp.name = "x"}) -> (tensor<4xf32> {msamp.name = "y"}) {
  // expected-error @below {{op 'arith.addf' is neither in a cluster nor a library call; the fuse phase must place it}}
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @below {{argument 0 of @micro_step has no msamp.name}}
func.func @micro_step(%x: tensor<4xf32>) -> (tensor<4xf32> {msamp.name = "y"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{result 0 of @micro_step has no msamp.name}}
func.func @micro_step(%x: tensor<4xf32> {msamp.name = "x"}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// An amax that depends on what is quantised with its own scale cannot be known before.
msamp.site @s activation f8E4M3FN
func.func @micro_step(%x: tensor<8xf32> {msamp.name = "x"}) -> (tensor<8xf8E4M3FN> {msamp.name = "y"}) {
  %s = msamp.site_scale @s : tensor<f32>
  %q = msamp.cluster(%x, %s) {
  ^bb0(%a: tensor<8xf32>, %b: tensor<f32>):
    %0 = msamp.quantize %a, %b : tensor<8xf32>, tensor<f32> -> tensor<8xf8E4M3FN>
    msamp.yield %0 : tensor<8xf8E4M3FN>
  } : (tensor<8xf32>, tensor<f32>) -> tensor<8xf8E4M3FN>
  // expected-error @below {{the amax of site @s depends on step 0, which comes after step 0 that uses the site's scale}}
  %amax = msamp.cluster(%q) {
  ^bb0(%a: tensor<8xf8E4M3FN>):
    %0 = arith.extf %a : tensor<8xf8E4M3FN> to tensor<8xf32>
    %1 = msamp.reduce max %0 dims = [0] : tensor<8xf32> -> tensor<f32>
    msamp.yield %1 : tensor<f32>
  } : (tensor<8xf8E4M3FN>) -> tensor<f32>
  msamp.record_amax @s, %amax : tensor<f32>
  return %q : tensor<8xf8E4M3FN>
}
