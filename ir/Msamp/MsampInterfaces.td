// Interfaces of the Msamp dialect; upstream arith and math ops get them as external models.
#ifndef MSAMP_INTERFACES_TD
#define MSAMP_INTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::msamp";
  let description = [{
    An op with a derivative rule (vector-Jacobian product).
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the gradient of each operand from the gradients of the results, at the builder's insertion point.
      `resultGrads[i]` is null where the result does not reach the loss. `wanted[i]` says which operands need a gradient;
      the others are left null in `operandGrads`, which has one entry per operand. A null entry for a wanted operand
      means a gradient of zero.
    }], "void", "buildVJP", (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGrads,
        "::llvm::ArrayRef<bool>":$wanted, "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>
  ];
}

#endif
