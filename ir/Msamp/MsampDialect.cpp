// Registration of the Msamp dialect.
#include "ir/Msamp/Msamp.h"

#include "mlir/IR/DialectImplementation.h"

#include "ir/Msamp/MsampDialect.cpp.inc"
#include "ir/Msamp/MsampEnums.cpp.inc"
#include "ir/Msamp/MsampInterfaces.cpp.inc"

void msamp::MsampDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "ir/Msamp/MsampOps.cpp.inc"
      >();
}

mlir::Operation *msamp::MsampDialect::materializeConstant(mlir::OpBuilder &builder, mlir::Attribute value,
                                                          mlir::Type type, mlir::Location loc) {
  return mlir::arith::ConstantOp::materialize(builder, value, type, loc);
}
