// The Msamp dialect's C++ face: dialect, interfaces and ops.
#ifndef MSAMP_IR_MSAMP_H
#define MSAMP_IR_MSAMP_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/Msamp/MsampEnums.h.inc"
#include "ir/Msamp/MsampDialect.h.inc"
#include "ir/Msamp/MsampInterfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/Msamp/MsampAttributes.h.inc"
#define GET_OP_CLASSES
#include "ir/Msamp/MsampOps.h.inc"

namespace msamp {

// Side of the blocks that a scale of rank 2 has entries for.
inline constexpr int64_t scaleBlock = 128;

// On a pointwise op: whoever reads its result computes it again, from what is in memory anyway.
inline constexpr llvm::StringLiteral repeatedAttr = "msamp.repeated";

} // namespace msamp

#endif
