// Rewrite patterns that merge and cancel changes of layout, for the passes that need canonical layouts.
#ifndef MSAMP_PASSES_RAISE_LAYOUT_H
#define MSAMP_PASSES_RAISE_LAYOUT_H

#include "mlir/IR/PatternMatch.h"

namespace msamp::raise {

/// Slices above transposes and reshapes, transposes below pointwise ops, broadcasts instead of reshaped ones.
void addLayoutPatterns(mlir::RewritePatternSet &patterns);
/// Transposes and slices of constants are computed.
void addConstantLayoutPatterns(mlir::RewritePatternSet &patterns);

} // namespace msamp::raise
#endif
