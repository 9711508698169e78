// Conversions between number formats as integer arithmetic.
#ifndef MSAMP_CODEGEN_CPU_EXPANDCONVERSIONS_H
#define MSAMP_CODEGEN_CPU_EXPANDCONVERSIONS_H

#include "mlir/IR/PatternMatch.h"

namespace msamp::codegen {

// arith.truncf and arith.extf of FP8 and BF16, on scalars and vectors.
void populateExpandConversionPatterns(mlir::RewritePatternSet &patterns);

// Its parts: FP8 alone, and integers that become BF16 or FP8, by way of FP32.
void populateExpandFp8Patterns(mlir::RewritePatternSet &patterns);
void populateIntegerThroughFp32Patterns(mlir::RewritePatternSet &patterns);

} // namespace msamp::codegen

#endif
