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

def ProductOpInterface : OpInterface<"ProductOpInterface"> {
  let cppNamespace = "::msamp";
  let description = [{
    A matrix product, with or without scales: operands `a` and `b`, each transposed or not, and what is added to it.
  }];
  let methods = [
    InterfaceMethod<"Left operand.", "::mlir::Value", "getA">,
    InterfaceMethod<"Right operand.", "::mlir::Value", "getB">,
    InterfaceMethod<"Left operand, to be changed.", "::mlir::OpOperand &", "getAMutable">,
    InterfaceMethod<"Right operand, to be changed.", "::mlir::OpOperand &", "getBMutable">,
    InterfaceMethod<"Whether the left operand is stored [K, M].", "bool", "getTransposeA">,
    InterfaceMethod<"Whether the right operand is stored [N, K].", "bool", "getTransposeB">,
    InterfaceMethod<"Tensor added to the product, or null.", "::mlir::Value", "getAddend">,
    InterfaceMethod<"The same, to be changed.", "::mlir::MutableOperandRange", "getAddendMutable">,
    InterfaceMethod<"Vector added to each row, or null.", "::mlir::Value", "getBias">,
    InterfaceMethod<"The same, to be changed.", "::mlir::MutableOperandRange", "getBiasMutable">,
    InterfaceMethod<"Sum of product, addend and bias.", "::mlir::Value", "getResult">];
}

#endif
