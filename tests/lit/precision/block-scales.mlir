// Scales of blocks have an entry for each 1 or 128 rows (columns) of the result and 128 values of the sum.
// RUN: not msamp-opt %s 2>&1 | FileCheck %s

// CHECK: error: 'msamp.scaled_matmul' op scale type 'tensor<64x3xf32>' of blocks, expected rank 0 or 64 or 1 by 2 values
func.func @f(%a: tensor<64x192xf8E4M3FN>, %b: tensor<256x192xf8E4M3FN>, %sa: tensor<64x3xf32>, %sb: tensor<2x2xf32>) -> tensor<64x256xbf16> {
  %c = msamp.scaled_matmul %a, %b scales %sa, %sb {transpose_b} : tensor<64x192xf8E4M3FN>, tensor<256x192xf8E4M3FN>, tensor<64x3xf32>, tensor<2x2xf32> -> tensor<64x256xbf16>
  return %c : tensor<64x256xbf16>
}
