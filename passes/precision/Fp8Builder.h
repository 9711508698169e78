// Builds quantised tensors by recipe and remembers them, so that each tensor is quantised once a format and kind of
// scale.
#ifndef MSAMP_PASSES_PRECISION_FP8BUILDER_H
#define MSAMP_PASSES_PRECISION_FP8BUILDER_H

#include "ir/Msamp/Msamp.h"

namespace msamp::precision {

// FP8 values and the scale that they were multiplied by.
struct Quantised {
  mlir::Value values;
  mlir::Value scale;
};

class Fp8Builder {
public:
  Fp8Builder(mlir::ModuleOp module, llvm::StringRef recipe);

  // One scale for the tensor: from a delayed site called `name`, or current if the recipe is.
  Quantised tensorwise(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::StringRef name,
                       SiteKind kind);
  // The same with the scale of `original`, which `x` is a rebuilt copy of.
  Quantised tensorwiseLike(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, mlir::Value original,
                           llvm::StringRef name, SiteKind kind);
  // One current scale a row.
  Quantised rowwise(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, SiteKind kind);
  // One current scale for each 128 values along the last dimension of a matrix, or of its transpose. Blocks are rows of a
  // reshaped tensor; the last one of a row may be partial.
  Quantised blockwise(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, SiteKind kind, bool transposed);

  // The op that quantised `x` row-wise, or by blocks of rows, or null.
  mlir::Operation *rowwiseOp(mlir::Value x, SiteKind kind) const;

  // Scales of blocks of 128 x 128 for E4M3 values `matrix / scale`, where `matrix` is stored and `scale` has rank 0.
  static mlir::Value squareScales(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value matrix, mlir::Value scale);
  // The values quantised with them. `mark` gets the ops that compute.
  static mlir::Value quantizeSquares(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value matrix, mlir::Value scale,
                                     mlir::Value squares, llvm::function_ref<void(mlir::Operation *)> mark);

  static mlir::FloatType formatOf(mlir::MLIRContext *context, SiteKind kind);

private:
  struct TensorScale {
    llvm::StringRef site; // empty: current
    mlir::Value scale;    // current
  };
  using Key = std::pair<mlir::Value, unsigned>;

  static mlir::Value amax(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> dims);
  llvm::StringRef newSite(llvm::StringRef name, SiteKind kind);
  Quantised withScale(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, const TensorScale &scale,
                      SiteKind kind);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  bool current;
  llvm::DenseMap<Key, Quantised> tensors, rows, columns;
  llvm::DenseMap<Key, TensorScale> scales;
};

} // namespace msamp::precision

#endif
