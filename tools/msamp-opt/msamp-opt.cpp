// msamp-opt: runs any of the compiler's passes on MLIR files, for work on one pass and for tests.
#include "ir/Msamp/Msamp.h"
#include "ir/Msamp/UpstreamDerivatives.h"
#include "ir/Plan/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/Pipeline.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect, msamp::MsampDialect>();
  registry.insert<msamp::planir::PlanDialect>();
  msamp::registerDerivativeModels(registry);
  msamp::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "msamp optimizer driver\n", registry));
}
