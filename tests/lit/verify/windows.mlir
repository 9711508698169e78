// RUN: msamp-opt %s --split-input-file --verify-diagnostics

func.func @size(%x: tensor<1x8x4xf32>, %f: tensor<2x3x4xf32>) {
  // expected-error @below {{dimension 1: 6 windows fit into 8 positions, not 7}}
  %y = msamp.conv %x, %f <[3] by [1] low [0] high [0] dilated [1]> groups 1 : tensor<1x8x4xf32>, tensor<2x3x4xf32> -> tensor<1x7x2xf32>
  return
}

// -----

func.func @filter(%x: tensor<1x8x4xf32>, %dy: tensor<1x6x2xf32>) {
  // expected-error @below {{filter of type 'tensor<2x3x3xf32>', expected 2 filters of 4 channels}}
  %f = msamp.conv_wgrad %x, %dy <[3] by [1] low [0] high [0] dilated [1]> groups 1 : tensor<1x8x4xf32>, tensor<1x6x2xf32> -> tensor<2x3x3xf32>
  return
}

// -----

func.func @groups(%dy: tensor<1x6x2xf32>, %f: tensor<2x3x1xf32>) {
  // expected-error @below {{3 groups of 4 and 2 channels}}
  %dx = msamp.conv_dgrad %dy, %f <[3] by [1] low [0] high [0] dilated [1]> groups 3 : tensor<1x6x2xf32>, tensor<2x3x1xf32> -> tensor<1x8x4xf32>
  return
}

// -----

func.func @ranks(%x: tensor<1x8x4xf32>) {
  // expected-error @below {{ranks of 'tensor<1x8x4xf32>' and 'tensor<1x4x4xf32>', expected 4}}
  %y = msamp.avg_pool %x <[2, 2] by [2, 2] low [0, 0] high [0, 0] dilated [1, 1]> : tensor<1x8x4xf32> -> tensor<1x4x4xf32>
  return
}

// -----

func.func @padding(%x: tensor<1x8x4xf32>) {
  // expected-error @below {{dimension 1: a window lies in padding alone}}
  %y, %tap = msamp.max_pool %x <[2] by [2] low [2] high [0] dilated [1]> : tensor<1x8x4xf32> -> tensor<1x5x4xf32>, tensor<1x5x4xui8>
  return
}

// -----

func.func @taps(%x: tensor<1x400x4xf32>) {
  // expected-error @below {{257 taps, at most 256 are numbered by a byte}}
  %y, %tap = msamp.max_pool %x <[257] by [1] low [0] high [0] dilated [1]> : tensor<1x400x4xf32> -> tensor<1x144x4xf32>, tensor<1x144x4xui8>
  return
}

// -----

// The last window of a pool may leave the padding by less than it moves.
func.func @beyond(%x: tensor<1x7x4xf32>) -> tensor<1x4x4xf32> {
  %y = msamp.avg_pool %x <[2] by [2] low [0] high [0] dilated [1]> : tensor<1x7x4xf32> -> tensor<1x4x4xf32>
  return %y : tensor<1x4x4xf32>
}

// -----

func.func @attribute(%x: tensor<1x8x4xf32>) {
  // expected-error @below {{dimension 0: size 2, stride 0 and dilation 1 are at least 1, padding 0 and 0 at least 0}}
  %y = msamp.avg_pool %x <[2] by [0] low [0] high [0] dilated [1]> : tensor<1x8x4xf32> -> tensor<1x4x4xf32>
  return
}
