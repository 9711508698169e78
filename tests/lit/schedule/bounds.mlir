// RUN: msamp-opt %s --msamp-note-input-bounds | FileCheck %s

// CHECK: module attributes {msamp.bounds = {ids = 32 : i64, labels = 10 : i64}}
module {
  func.func @forward(%ids: tensor<2x4xi64> {msamp.name = "ids"}, %labels: tensor<8xi64> {msamp.name = "labels"}, %other: tensor<8xi64> {msamp.name = "other"}, %x: tensor<8x10xf32> {msamp.name = "x"}, %big: tensor<64x4xf32> {msamp.name = "big"}, %small: tensor<32x4xf32> {msamp.name = "small"}) -> (tensor<f32> {msamp.name = "loss"}, tensor<8x4xf32>, tensor<2x4x4xf32>) {
    %flat = msamp.reshape %ids : tensor<2x4xi64> -> tensor<8xi64>
    %a = msamp.gather %big at %flat axis = 0 : tensor<64x4xf32>, tensor<8xi64> -> tensor<8x4xf32>
    %b = msamp.gather %small at %ids axis = 0 : tensor<32x4xf32>, tensor<2x4xi64> -> tensor<2x4x4xf32>
    %loss, %lse, %valid = msamp.cross_entropy %x, %labels {ignore_index = -100 : i64} : tensor<8x10xf32>, tensor<8xi64> -> tensor<f32>, tensor<8xf32>, tensor<f32>
    return %loss, %a, %b : tensor<f32>, tensor<8x4xf32>, tensor<2x4x4xf32>
  }
}
