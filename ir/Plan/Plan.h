// The Plan dialect's C++ face: dialect, step interface and ops.
#ifndef MSAMP_IR_PLAN_H
#define MSAMP_IR_PLAN_H

#include "ir/Msamp/Msamp.h"
#include "mlir/IR/RegionKindInterface.h"

#include "ir/Plan/PlanDialect.h.inc"
#include "ir/Plan/PlanEnums.h.inc"
#include "ir/Plan/PlanInterfaces.h.inc"
#define GET_OP_CLASSES
#include "ir/Plan/PlanOps.h.inc"

namespace msamp::planir {

// Bytes of one element of a stored type.
int64_t elementBytes(mlir::Type type);

// Distance in bytes from a memory's first element to the end of its last one.
int64_t extentInBytes(mlir::MemRefType type);

// The buffer or place below a view, and the byte offset of the view in it.
std::pair<mlir::Value, int64_t> baseOf(mlir::Value memory);

} // namespace msamp::planir

#endif
