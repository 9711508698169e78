// What the verifier after partition refuses.
// RUN: msamp-opt %s --split-input-file --verify-diagnostics --msamp-verify-phase="phase=partition"

module {
  msamp.parameter @w : tensor<4xf32> bias {trained = true, state_class = 0 : i32}
  // expected-error@+1 {{bucket b starts at 128, expected 0}}
  msamp.bucket @b plain offset 128 elements 128 [@w]
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  // expected-error@+1 {{gradient of w is not stored}}
  msamp.parameter @w : tensor<4xf32> bias {trained = true, state_class = 0 : i32}
  msamp.bucket @b plain offset 0 elements 128 [@w]
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

module {
  msamp.parameter @w : tensor<4xf32> bias {trained = true, state_class = 0 : i32}
  msamp.bucket @b plain offset 0 elements 128 [@w]
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{comes before the gradient of @w is stored}}
    msamp.exchange @b wire f32 zero 0
    msamp.store_grad @w, %x : tensor<4xf32>
    return %x : tensor<4xf32>
  }
}

// -----

module attributes {msamp.level = "bf16"} {
  msamp.parameter @w : tensor<4xf32> bias {trained = true, state_class = 0 : i32}
  msamp.bucket @b plain offset 0 elements 128 [@w]
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{gradient of type 'tensor<4xf32>' for parameter type 'tensor<4xf32>' stored as 'bf16'}}
    msamp.store_grad @w, %x : tensor<4xf32>
    msamp.exchange @b wire f32 zero 0
    return %x : tensor<4xf32>
  }
}
