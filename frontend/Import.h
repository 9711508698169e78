// Imports an ONNX model: a module with `@forward` over static shapes and one msamp.parameter for each initializer that
// a training step may change.
#ifndef MSAMP_FRONTEND_IMPORT_H
#define MSAMP_FRONTEND_IMPORT_H

#include "frontend/WeightSource.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace msamp::frontend {

struct ImportOptions {
  // Size of each symbolic dimension, by the name that the file gives it (or "INPUT[AXIS]" where it gives none).
  std::map<std::string, int64_t> dims;
  // Parameters are drawn at random instead of read from the file: standard deviation of matrices, tables and filters.
  std::optional<double> initStddev;
  // A BatchNormalization normalises by its micro-batch, whatever mode the file gives it.
  bool batchStatistics = false;
  // Regular expressions (RE2, matched anywhere in the ONNX name). A parameter that both lists match is trained.
  std::vector<std::string> freeze, train;
};

// Throws Error. Loads the dialects that it needs into the context.
mlir::OwningOpRef<mlir::ModuleOp> importModel(const std::string &path, const ImportOptions &options,
                                              mlir::MLIRContext &context);

} // namespace msamp::frontend

#endif
