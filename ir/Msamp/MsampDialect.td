// The Msamp dialect: the training step of a model over tensors with static shapes and value semantics.
#ifndef MSAMP_DIALECT_TD
#define MSAMP_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"

def MsampDialect : Dialect {
  let name = "msamp";
  let cppNamespace = "::msamp";
  let summary = "training steps over static tensors";
  let description = [{
    Tensors are values; parameters, FP8 scale sites and gradient buckets are module symbols. Pointwise math is `arith`
    and `math` on tensors of one shape; Msamp adds the structure around it. Broadcast is always explicit.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::func::FuncDialect"];
  let hasConstantMaterializer = 1;
}

class Msamp_Op<string mnemonic, list<Trait> traits = []> : Op<MsampDialect, mnemonic, traits>;

def ReduceKindAttr : I32EnumAttr<"ReduceKind", "kind of a reduction", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::msamp";
}

def ParameterRoleAttr : I32EnumAttr<"ParameterRole", "what a parameter does in the model", [
    I32EnumAttrCase<"Matrix", 0, "matrix">, I32EnumAttrCase<"Table", 1, "table">,
    I32EnumAttrCase<"Scale", 2, "scale">, I32EnumAttrCase<"Shift", 3, "shift">,
    I32EnumAttrCase<"Bias", 4, "bias">, I32EnumAttrCase<"Filter", 5, "filter">]> {
  let cppNamespace = "::msamp";
}

def StateClassAttr : I32EnumAttr<"StateClass", "how a parameter's training state is stored", [
    I32EnumAttrCase<"Plain", 0, "plain">, I32EnumAttrCase<"Scaled", 1, "scaled">]> {
  let cppNamespace = "::msamp";
}

def SiteKindAttr : I32EnumAttr<"SiteKind", "what a scale site scales", [
    I32EnumAttrCase<"Activation", 0, "activation">, I32EnumAttrCase<"ActivationGrad", 1, "activation_grad">,
    I32EnumAttrCase<"WeightGrad", 2, "weight_grad">]> {
  let cppNamespace = "::msamp";
}

#endif
