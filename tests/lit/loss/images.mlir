// RUN: msamp-opt %s --split-input-file --msamp-add-loss 2>&1 >/dev/null | FileCheck %s

// Logits of images: which dimension is of the classes cannot be seen, but of square ones.
// CHECK: warning: {{.*}}cross-entropy takes the last dimension of the first output, of 8 values, as its classes
func.func @forward(%x: tensor<2x5x8x8xf32> {msamp.name = "x"}) -> (tensor<2x5x8x8xf32> {msamp.name = "logits"}) {
  return %x : tensor<2x5x8x8xf32> loc("logits")
}

// -----

// CHECK: warning: cross-entropy takes the last dimension of the first output, of 5 values, as its classes
func.func @forward(%x: tensor<2x6x8x5xf32> {msamp.name = "x"}) -> (tensor<2x6x8x5xf32> {msamp.name = "logits"}) {
  return %x : tensor<2x6x8x5xf32>
}

// -----

// CHECK-NOT: warning
func.func @forward(%x: tensor<2x8x8x5xf32> {msamp.name = "x"}) -> (tensor<2x8x8x5xf32> {msamp.name = "logits"}) {
  return %x : tensor<2x8x8x5xf32>
}
