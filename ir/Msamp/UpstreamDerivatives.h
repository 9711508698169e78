// Derivative rules of upstream arith and math ops, attached as external models of DifferentiableOpInterface.
#ifndef MSAMP_IR_UPSTREAM_DERIVATIVES_H
#define MSAMP_IR_UPSTREAM_DERIVATIVES_H

namespace mlir {
class DialectRegistry;
}

namespace msamp {

/// Attaches the rules when the dialects are loaded. Call it once on the registry of every tool that runs autodiff.
void registerDerivativeModels(mlir::DialectRegistry &registry);

} // namespace msamp
#endif
