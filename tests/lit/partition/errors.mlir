// What partition needs from the phases before it.
// RUN: msamp-opt %s --split-input-file --verify-diagnostics --msamp-place-gradients

// expected-error@+1 {{no function @step of one block: run the autodiff phase first}}
module {
}

// -----

module {
  // expected-error@+1 {{parameter w has no state class: run the precision phase first}}
  msamp.parameter @w : tensor<4xf32> bias {trained = true}
  func.func @step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32> {msamp.grad = @w}) {
    return %x, %x : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

module {
  // expected-error@+1 {{trained parameter w has no gradient among the results of @step}}
  msamp.parameter @w : tensor<4xf32> bias {trained = true, state_class = 0 : i32}
  func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}
