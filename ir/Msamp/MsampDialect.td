// The Msamp dialect: the training step of a model over tensors with static shapes and value semantics.
#ifndef MSAMP_DIALECT_TD
#define MSAMP_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
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
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class Msamp_Op<string mnemonic, list<Trait> traits = []> : Op<MsampDialect, mnemonic, traits>;

def ReduceKindAttr : I32EnumAttr<"ReduceKind", "kind of a reduction", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">, I32EnumAttrCase<"Min", 2, "min">]> {
  let cppNamespace = "::msamp";
}

def ParameterRoleAttr : I32EnumAttr<"ParameterRole", "what a parameter does in the model", [
    I32EnumAttrCase<"Matrix", 0, "matrix">, I32EnumAttrCase<"Table", 1, "table">,
    I32EnumAttrCase<"Scale", 2, "scale">, I32EnumAttrCase<"Shift", 3, "shift">,
    I32EnumAttrCase<"Bias", 4, "bias">, I32EnumAttrCase<"Filter", 5, "filter">,
    I32EnumAttrCase<"Mean", 6, "mean">, I32EnumAttrCase<"Variance", 7, "variance">]> {
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

def WindowAttr : AttrDef<MsampDialect, "Window"> {
  let mnemonic = "window";
  let summary = "windows that move over an image";
  let description = [{
    One entry a dimension of the image (1 to 3). A window has `size` taps, `dilations` apart, and moves by `strides` over
    the image with `low` positions of padding before it and `high` ones behind it.

    ```mlir
    #msamp.window<[3, 3] by [2, 2] low [1, 1] high [1, 1] dilated [1, 1]>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$size, ArrayRefParameter<"int64_t">:$strides,
      ArrayRefParameter<"int64_t">:$low, ArrayRefParameter<"int64_t">:$high, ArrayRefParameter<"int64_t">:$dilations);
  let assemblyFormat = [{`<` `[` $size `]` `by` `[` $strides `]` `low` `[` $low `]` `high` `[` $high `]`
      `dilated` `[` $dilations `]` `>`}];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t rank() const { return static_cast<int64_t>(getSize().size()); }
    // Positions from a window's first tap to behind its last one.
    int64_t reach(int64_t d) const { return (getSize()[d] - 1) * getDilations()[d] + 1; }
    // Windows along a dimension of `extent` positions; 0 where none fits.
    int64_t count(int64_t d, int64_t extent) const;
    // One more where the last window may leave the padding, as long as it begins before the image ends.
    int64_t countBeyond(int64_t d, int64_t extent) const;
    // Taps of one window.
    int64_t taps() const;
    // Whether each of `windows` along a dimension has a tap on the image.
    bool allTouch(int64_t d, int64_t windows, int64_t extent) const;
  }];
}

#endif
