// Sines and cosines of large angles: MLIR's polynomials lose an angle's unit in the last place for each quarter turn, which
// the positions of rotary embeddings have thousands of.
#ifndef MSAMP_CODEGEN_KERNEL_REDUCEANGLES_H
#define MSAMP_CODEGEN_KERNEL_REDUCEANGLES_H

#include "mlir/IR/PatternMatch.h"

namespace msamp::codegen {

// FP32 math.sin and math.cos, of scalars and vectors, get an angle within half a turn: x - k 2 pi with 2 pi in two parts, each
// subtracted by an FMA (Cody and Waite, Software Manual for the Elementary Functions, 1980). The angle is off by 2^-24 of a
// half turn at most while |k| is below 2^20. To be populated beside the polynomials, which then lower them.
void populateReduceAnglePatterns(mlir::RewritePatternSet &patterns);

} // namespace msamp::codegen

#endif
