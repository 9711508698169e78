// What kernels say in arith and math, in terms of the instructions that a GPU has.
#ifndef MSAMP_CODEGEN_CUDA_LOWERING_H
#define MSAMP_CODEGEN_CUDA_LOWERING_H

#include "codegen/cuda/Target.h"

#include "mlir/IR/PatternMatch.h"

namespace msamp::codegen::cuda {

// arith.extf and arith.truncf of FP8 and BF16 on scalars and vectors: conversion instructions where the target has
// them, integer arithmetic elsewhere. FP8 codes are equal on all targets: rounded to nearest even, saturated, NaN 0x7F.
void populateConversionPatterns(mlir::RewritePatternSet &patterns, const Target &target);

// FP32 division and the functions of the math dialect, accurate to a few units in the last place, without libdevice.
void populateMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace msamp::codegen::cuda

#endif
