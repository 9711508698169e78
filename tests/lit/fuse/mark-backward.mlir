// With scales of blocks, what recompute rebuilt and what the backward computes are told apart.
// RUN: split-file %s %t
// RUN: msamp-opt %t/block.mlir --msamp-mark-backward --cse --mlir-print-local-scope | FileCheck %t/block.mlir
// RUN: msamp-opt %t/delayed.mlir --msamp-mark-backward --cse | FileCheck %t/delayed.mlir

//--- block.mlir
// CHECK: math.exp %arg0 : tensor<4xf32>
// CHECK: math.exp %arg0 {msamp.backward} : tensor<4xf32>
// CHECK: math.exp %arg0 {msamp.backward = "recompute"} : tensor<4xf32>
module attributes {msamp.recipe = "block"} {
  func.func @micro_step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = math.exp %x : tensor<4xf32>
    %1 = math.exp %x : tensor<4xf32> loc(fused<"autodiff">["node"])
    %2 = math.exp %x : tensor<4xf32> loc(fused<"recompute">["node"])
    return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

//--- delayed.mlir
// CHECK-COUNT-2: math.exp
// CHECK-NOT: math.exp
module attributes {msamp.recipe = "delayed"} {
  func.func @micro_step(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
    %0 = math.exp %x : tensor<4xf32>
    %1 = math.exp %x : tensor<4xf32> loc(fused<"autodiff">["node"])
    %2 = math.exp %x : tensor<4xf32> loc(fused<"recompute">["node"])
    return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}
