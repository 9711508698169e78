// RUN: not msamp-opt %s --msamp-add-loss=loss=output:other 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not msamp-opt %s --msamp-add-loss=loss=output:logits 2>&1 | FileCheck %s --check-prefix=SHAPE
// RUN: not msamp-opt %s --msamp-add-loss=loss=hinge 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not msamp-opt %s --msamp-add-loss=labels=x 2>&1 | FileCheck %s --check-prefix=LABELS

// NAME: the graph has no output 'other' to use as the loss; it has 'logits'
// SHAPE: output 'logits' has type 'tensor<4x5xf32>', a loss has one floating-point element
// KIND: unknown loss 'hinge'; use cross-entropy, mse, bce or output:NAME
// LABELS: input 'x' has type 'tensor<4x5xf32>', but cross-entropy needs labels of type 'tensor<4xi64>'; name another input with --labels
func.func @forward(%x: tensor<4x5xf32> {msamp.name = "x"}) -> (tensor<4x5xf32> {msamp.name = "logits"}) {
  return %x : tensor<4x5xf32>
}
