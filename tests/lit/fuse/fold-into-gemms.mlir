// GEMMs add what is only added to their result, and quantise what is only quantised.
// RUN: msamp-opt %s --msamp-fold-into-gemms --msamp-quantize-in-gemms --canonicalize | FileCheck %s

msamp.parameter @w : tensor<32x16xf32> matrix {trained = true}
msamp.parameter @b : tensor<16xf32> bias {trained = true}
msamp.site @w.dw weight_grad f8E4M3FN

// A bias and a residual, rounded once; the bias is read after the product in the source.
// CHECK-LABEL: func.func @residual
// CHECK: %[[B:.*]] = msamp.get @b
// CHECK: %[[Y:.*]] = msamp.matmul %arg0, %arg1 addend %arg2 : tensor<64x16xbf16> bias %[[B]] : tensor<16xbf16> : {{.*}} -> tensor<64x16xbf16>
// CHECK-NEXT: return %[[Y]]
func.func @residual(%x: tensor<64x32xbf16>, %w: tensor<32x16xbf16>, %r: tensor<64x16xbf16>) -> tensor<64x16xbf16> {
  %r2 = msamp.reshape %r : tensor<64x16xbf16> -> tensor<64x16xbf16>
  %p = msamp.matmul %x, %w : tensor<64x32xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
  %b = msamp.get @b : tensor<16xbf16>
  %bw = arith.extf %b : tensor<16xbf16> to tensor<16xf32>
  %bb = msamp.broadcast %bw dims = [1] : tensor<16xf32> -> tensor<64x16xf32>
  %pw = arith.extf %p : tensor<64x16xbf16> to tensor<64x16xf32>
  %s = arith.addf %pw, %bb : tensor<64x16xf32>
  %rw = arith.extf %r2 : tensor<64x16xbf16> to tensor<64x16xf32>
  %t = arith.addf %rw, %s : tensor<64x16xf32>
  %y = arith.truncf %t : tensor<64x16xf32> to tensor<64x16xbf16>
  return %y : tensor<64x16xbf16>
}

// What a kernel goes on with in FP32 is not rounded for the GEMM's sake.
// CHECK-LABEL: func.func @goes_on
// CHECK: msamp.matmul %arg0, %arg1 :
// CHECK: arith.addf
func.func @goes_on(%x: tensor<64x32xbf16>, %w: tensor<32x16xbf16>, %b: tensor<16xbf16>) -> tensor<64x16xbf16> {
  %p = msamp.matmul %x, %w : tensor<64x32xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
  %bw = arith.extf %b : tensor<16xbf16> to tensor<16xf32>
  %bb = msamp.broadcast %bw dims = [1] : tensor<16xf32> -> tensor<64x16xf32>
  %pw = arith.extf %p : tensor<64x16xbf16> to tensor<64x16xf32>
  %s = arith.addf %pw, %bb : tensor<64x16xf32>
  %g = msamp.gelu %s : tensor<64x16xf32> -> tensor<64x16xf32>
  %y = arith.truncf %g : tensor<64x16xf32> to tensor<64x16xbf16>
  return %y : tensor<64x16xbf16>
}

// A sum of products is read once.
// CHECK-LABEL: func.func @products
// CHECK: %[[P:.*]] = msamp.matmul %arg0, %arg1 :
// CHECK: %[[Q:.*]] = msamp.matmul %arg0, %arg2 addend %[[P]]
// CHECK: %[[E:.*]] = arith.extf %[[Q]]
// CHECK: math.exp %[[E]]
func.func @products(%x: tensor<64x32xbf16>, %v: tensor<32x16xbf16>, %w: tensor<32x16xbf16>) -> tensor<64x16xf32> {
  %p = msamp.matmul %x, %v : tensor<64x32xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
  %q = msamp.matmul %x, %w : tensor<64x32xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
  %pw = arith.extf %p : tensor<64x16xbf16> to tensor<64x16xf32>
  %qw = arith.extf %q : tensor<64x16xbf16> to tensor<64x16xf32>
  %s = arith.addf %pw, %qw : tensor<64x16xf32>
  %e = math.exp %s : tensor<64x16xf32>
  return %e : tensor<64x16xf32>
}

// CHECK-LABEL: func.func @weight_gradient
// CHECK: %[[S:.*]] = msamp.site_scale @w.dw
// CHECK: %[[G:.*]], %[[A:.*]] = msamp.scaled_matmul %arg0, %arg1 scales %arg2, %arg3 quantised %[[S]] : tensor<f32> {transpose_a} : {{.*}} -> tensor<32x16xf8E4M3FN>, tensor<f32>
// CHECK: msamp.record_amax @w.dw, %[[A]]
// CHECK: msamp.store_grad @w, %[[G]] scale %[[S]]
func.func @weight_gradient(%x: tensor<64x32xf8E4M3FN>, %dy: tensor<64x16xf8E5M2>, %sx: tensor<f32>, %sy: tensor<f32>) {
  %g = msamp.scaled_matmul %x, %dy scales %sx, %sy {transpose_a} : tensor<64x32xf8E4M3FN>, tensor<64x16xf8E5M2>, tensor<f32>, tensor<f32> -> tensor<32x16xf32>
  %m = math.absf %g : tensor<32x16xf32>
  %a = msamp.reduce max %m dims = [0, 1] : tensor<32x16xf32> -> tensor<f32>
  msamp.record_amax @w.dw, %a : tensor<f32>
  %s = msamp.site_scale @w.dw : tensor<f32>
  %q = msamp.quantize %g, %s : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
  msamp.store_grad @w, %q scale %s : tensor<f32> : tensor<32x16xf8E4M3FN>
  return
}

// One that something else reads too stays FP32.
// CHECK-LABEL: func.func @read_twice
// CHECK-NOT: quantised
func.func @read_twice(%x: tensor<64x32xf8E4M3FN>, %dy: tensor<64x16xf8E5M2>, %sx: tensor<f32>, %sy: tensor<f32>) -> tensor<32x16xf32> {
  %g = msamp.scaled_matmul %x, %dy scales %sx, %sy {transpose_a} : tensor<64x32xf8E4M3FN>, tensor<64x16xf8E5M2>, tensor<f32>, tensor<f32> -> tensor<32x16xf32>
  %m = math.absf %g : tensor<32x16xf32>
  %a = msamp.reduce max %m dims = [0, 1] : tensor<32x16xf32> -> tensor<f32>
  msamp.record_amax @w.dw, %a : tensor<f32>
  %s = msamp.site_scale @w.dw : tensor<f32>
  %q = msamp.quantize %g, %s : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
  msamp.store_grad @w, %q scale %s : tensor<f32> : tensor<32x16xf8E4M3FN>
  return %g : tensor<32x16xf32>
}

// One that ends a sum over chunks of tokens is quantised afterwards.
// CHECK-LABEL: func.func @sum_of_chunks
// CHECK: msamp.scaled_matmul {{.*}} addend %arg4
// CHECK-NOT: quantised
// CHECK: msamp.quantize
func.func @sum_of_chunks(%x: tensor<64x32xf8E4M3FN>, %dy: tensor<64x16xf8E5M2>, %sx: tensor<f32>, %sy: tensor<f32>, %sum: tensor<32x16xf32>) {
  %g = msamp.scaled_matmul %x, %dy scales %sx, %sy addend %sum : tensor<32x16xf32> {transpose_a} : tensor<64x32xf8E4M3FN>, tensor<64x16xf8E5M2>, tensor<f32>, tensor<f32> -> tensor<32x16xf32>
  %m = math.absf %g : tensor<32x16xf32>
  %a = msamp.reduce max %m dims = [0, 1] : tensor<32x16xf32> -> tensor<f32>
  msamp.record_amax @w.dw, %a : tensor<f32>
  %s = msamp.site_scale @w.dw : tensor<f32>
  %q = msamp.quantize %g, %s : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
  msamp.store_grad @w, %q scale %s : tensor<f32> : tensor<32x16xf8E4M3FN>
  return
}
