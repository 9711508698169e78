// RUN: msamp-opt %s --msamp-tie-twins="assume-equal=embed.weight=head.t" --msamp-simplify-layout | FileCheck %s --check-prefix=TIED
// RUN: msamp-opt %s --msamp-tie-twins | FileCheck %s --check-prefix=APART

// TIED: msamp.parameter @embed.weight : tensor<9x6xf32> table {trained = true, twins = [{name = "head.t", transposed}]}
// TIED-NOT: head.t
// TIED: %[[W:.*]] = msamp.get @embed.weight
// TIED: msamp.matmul %{{.*}}, %{{.*}} {transpose_b} : tensor<8x6xf32>, tensor<9x6xf32> -> tensor<8x9xf32>

// APART-NOT: twins
// APART: msamp.parameter @head.t
msamp.parameter @embed.weight : tensor<9x6xf32> table {trained = true}
msamp.parameter @head.t : tensor<6x9xf32> matrix {trained = true}
func.func @forward(%ids: tensor<8xi64> {msamp.name = "ids"}) -> (tensor<2x4x9xf32> {msamp.name = "logits"}) {
  %t = msamp.get @embed.weight : tensor<9x6xf32>
  %x = msamp.gather %t at %ids axis = 0 : tensor<9x6xf32>, tensor<8xi64> -> tensor<8x6xf32>
  %w = msamp.get @head.t : tensor<6x9xf32>
  %y = msamp.matmul %x, %w : tensor<8x6xf32>, tensor<6x9xf32> -> tensor<8x9xf32>
  %z = msamp.reshape %y : tensor<8x9xf32> -> tensor<2x4x9xf32>
  return %z : tensor<2x4x9xf32>
}
