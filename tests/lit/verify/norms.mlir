// RUN: msamp-opt %s --split-input-file --verify-diagnostics

func.func @rank(%x: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @below {{operand of rank 1, expected rows of columns}}
  %y, %m, %s = msamp.batch_norm %x scale %v : tensor<8xf32> shift %v : tensor<8xf32> {eps = 1.0e-5 : f64} : tensor<8xf32> -> tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @columns(%x: tensor<6x8xf32>, %v: tensor<6xf32>, %w: tensor<8xf32>) {
  // expected-error @below {{scale has type 'tensor<6xf32>', expected one value for each of 8 columns}}
  %y, %m, %s = msamp.batch_norm %x scale %v : tensor<6xf32> shift %w : tensor<8xf32> {eps = 1.0e-5 : f64} : tensor<6x8xf32> -> tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @statistics(%x: tensor<6x8xf32>, %w: tensor<8xf32>) {
  // expected-error @below {{variance has type 'tensor<6xf32>', expected one value for each of 8 columns}}
  %y, %m, %s = msamp.batch_norm %x scale %w : tensor<8xf32> shift %w : tensor<8xf32> {eps = 1.0e-5 : f64} : tensor<6x8xf32> -> tensor<6x8xf32>, tensor<8xf32>, tensor<6xf32>
  return
}
