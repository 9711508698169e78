// What a module has to be after each phase; each check says which op breaks it and how.
#ifndef MSAMP_PASSES_VERIFY_CHECKS_H
#define MSAMP_PASSES_VERIFY_CHECKS_H

#include "mlir/IR/BuiltinOps.h"

namespace msamp::verify {

mlir::LogicalResult checkImport(mlir::ModuleOp module);
mlir::LogicalResult checkRaise(mlir::ModuleOp module);
mlir::LogicalResult checkLoss(mlir::ModuleOp module);
mlir::LogicalResult checkGradients(mlir::ModuleOp module);
mlir::LogicalResult checkPrecision(mlir::ModuleOp module);
mlir::LogicalResult checkPartition(mlir::ModuleOp module);
mlir::LogicalResult checkOptimizer(mlir::ModuleOp module);
/// The check of a phase by its name.
mlir::LogicalResult checkPhase(mlir::ModuleOp module, llvm::StringRef phase);

} // namespace msamp::verify
#endif
