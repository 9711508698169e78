// Operations of the Msamp dialect. Pointwise math is not here: it is arith and math on tensors.
#ifndef MSAMP_OPS_TD
#define MSAMP_OPS_TD

include "MsampDialect.td"
include "MsampInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Msamp_Tensor : StaticShapeTensorOf<[AnyFloat, AnyInteger]>;
def Msamp_FloatTensor : StaticShapeTensorOf<[AnyFloat]>;
def Msamp_IndexTensor : StaticShapeTensorOf<[AnyInteger]>;
def Msamp_Scalar : Type<And<[Msamp_FloatTensor.predicate, HasAnyRankOfPred<[0]>]>, "float tensor of rank 0",
    "::mlir::RankedTensorType">;

//===--- Symbols ---------------------------------------------------------------------------------------------===//

def ParameterOp : Msamp_Op<"parameter", [Symbol]> {
  let summary = "initializer that the step reads as a parameter";
  let description = [{
    The symbol is the ONNX name of the initializer. `type` is its ONNX type (FP32), whatever its storage type is later.
    `trained` parameters get a gradient and an update, the others are frozen. `init` absent: values come from the model
    file (`msamp.source` of the module); otherwise they are drawn from N(0, init) if the role is matrix, table or filter,
    1 for scales and variances, 0 for shifts, biases and means. Means and variances are running statistics, in FP32 at
    every level: they are never trained, and only `msamp.track` changes them. `twins` lists other initializers that hold
    the same values (`{name = "...", transposed}`) and are saved and checked as copies of this one.
    `state_class` is set by precision (absent before). `fp8_gemms` marks a table of the plain class that is the head, too, and
    whose products are FP8 all the same.

    ```mlir
    msamp.parameter @"h.0.qkv.weight" : tensor<128x384xf32> {role = #msamp.role<matrix>, trained = true}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Msamp_Tensor>:$type, ParameterRoleAttr:$role,
      BoolAttr:$trained, OptionalAttr<F64Attr>:$init, OptionalAttr<ArrayAttr>:$twins,
      OptionalAttr<StateClassAttr>:$state_class, UnitAttr:$fp8_gemms);
  let assemblyFormat = "$sym_name `:` $type $role attr-dict";
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::mlir::cast<::mlir::RankedTensorType>(getType()); }
    bool isStatistic() { return getRole() == ParameterRole::Mean || getRole() == ParameterRole::Variance; }
  }];
}

def SiteOp : Msamp_Op<"site", [Symbol]> {
  let summary = "delayed FP8 scale with its amax history";
  let description = [{
    One tensor whose FP8 scale comes from the amax of earlier steps. `format` is its FP8 element type; its scale stays
    `margin` powers of two below what that amax allows, for tensors that grow from one step to the next.

    ```mlir
    msamp.site @"h.0.qkv.weight.x" activation f8E4M3FN margin 1
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, SiteKindAttr:$kind, TypeAttr:$format,
      DefaultValuedAttr<I64Attr, "0">:$margin);
  let assemblyFormat = "$sym_name $kind $format (`margin` $margin^)? attr-dict";
}

def BucketOp : Msamp_Op<"bucket", [Symbol]> {
  let summary = "run of parameters whose gradients are exchanged together";
  let description = [{
    `params` lie one after the other in the flat space of their state class, each padded to a multiple of 128 elements,
    the first at element `offset`; `elements` is the padded length. Buckets are listed in the order in which their
    gradients become complete.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StateClassAttr:$state_class, ArrayAttr:$params, I64Attr:$offset,
      I64Attr:$elements);
  let assemblyFormat = "$sym_name $state_class `offset` $offset `elements` $elements $params attr-dict";
}

def GetOp : Msamp_Op<"get", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "value of a parameter";
  let description = [{
    Before precision the type is the parameter's; afterwards its storage type (f32, bf16, f16 or an f8). For the scaled
    class the stored values are `value * scale`, with the scale of `msamp.get_scale`.
  }];
  let arguments = (ins FlatSymbolRefAttr:$param);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$param attr-dict `:` type($result)";
}

def GetScaleOp : Msamp_Op<"get_scale", [Pure]> {
  let summary = "scale of a scaled parameter's stored values";
  let arguments = (ins FlatSymbolRefAttr:$param);
  let results = (outs Msamp_Scalar:$result);
  let assemblyFormat = "$param attr-dict `:` type($result)";
}

def GetAmaxOp : Msamp_Op<"get_amax", [Pure]> {
  let summary = "largest magnitude among a scaled parameter's values";
  let description = [{ Known exactly: initialisation and update record it. }];
  let arguments = (ins FlatSymbolRefAttr:$param);
  let results = (outs Msamp_Scalar:$result);
  let assemblyFormat = "$param attr-dict `:` type($result)";
}

def SiteScaleOp : Msamp_Op<"site_scale", [Pure]> {
  let summary = "current scale of a delayed site";
  let arguments = (ins FlatSymbolRefAttr:$site);
  let results = (outs Msamp_Scalar:$result);
  let assemblyFormat = "$site attr-dict `:` type($result)";
}

def RecordAmaxOp : Msamp_Op<"record_amax"> {
  let summary = "notes a tensor's amax in the history of a site";
  let description = [{
    Several records within a step keep the largest. A site without history takes its scale from the first amax recorded,
    before the tensor is quantised.
  }];
  let arguments = (ins FlatSymbolRefAttr:$site, Msamp_Scalar:$amax);
  let assemblyFormat = "$site `,` $amax attr-dict `:` type($amax)";
}

//===--- Structure -------------------------------------------------------------------------------------------===//

def BroadcastOp : Msamp_Op<"broadcast", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "repetition along new dimensions";
  let description = [{
    Operand dimension `i` becomes result dimension `dims[i]` (strictly ascending) with the same size; all other result dimensions repeat.

    ```mlir
    %1 = msamp.broadcast %bias dims = [1] : tensor<384xf32> -> tensor<2048x384xf32>
    ```
  }];
  let arguments = (ins Msamp_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def ReduceOp : Msamp_Op<"reduce", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "reduction over dimensions, which are dropped";
  let description = [{ An FP32 operand may have a 16-bit result: the complete sum, rounded. }];
  let arguments = (ins ReduceKindAttr:$kind, Msamp_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$kind $input `dims` `=` $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def ReshapeOp : Msamp_Op<"reshape", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "same elements in row-major order under another shape";
  let arguments = (ins Msamp_Tensor:$input);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def TransposeOp : Msamp_Op<"transpose", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "permutation of dimensions";
  let description = [{ Result dimension `i` is operand dimension `perm[i]`. }];
  let arguments = (ins Msamp_Tensor:$input, DenseI64ArrayAttr:$perm);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$input `perm` `=` $perm attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def SliceOp : Msamp_Op<"slice", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "strided part of a tensor";
  let description = [{ Element `i` along dimension `d` is operand element `starts[d] + i * strides[d]`; strides >= 1. }];
  let arguments = (ins Msamp_Tensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$strides);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$input `starts` `=` $starts `strides` `=` $strides attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def PadOp : Msamp_Op<"pad", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "tensor placed into a larger one of constant value";
  let description = [{
    Operand element `i` along dimension `d` lands at `low[d] + i * strides[d]` of the result; all others are `value`.
  }];
  let arguments = (ins Msamp_Tensor:$input, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$strides,
      DefaultValuedAttr<F64Attr, "0.0">:$value);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$input `low` `=` $low `strides` `=` $strides attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def ConcatOp : Msamp_Op<"concat", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "tensors one after the other along a dimension";
  let arguments = (ins Variadic<Msamp_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$inputs `dim` `=` $dim attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
}

def IotaOp : Msamp_Op<"iota", [Pure]> {
  let summary = "index along a dimension";
  let arguments = (ins I64Attr:$dim);
  let results = (outs Msamp_IndexTensor:$result);
  let assemblyFormat = "`dim` `=` $dim attr-dict `:` type($result)";
}

def GatherOp : Msamp_Op<"gather", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "slices of a table by index";
  let description = [{
    The result's shape is `table[:axis] + indices + table[axis+1:]`. Negative indices count from the end, as in ONNX.
  }];
  let arguments = (ins Msamp_Tensor:$table, Msamp_IndexTensor:$indices, I64Attr:$axis);
  let results = (outs Msamp_Tensor:$result);
  let assemblyFormat = "$table `at` $indices `axis` `=` $axis attr-dict `:` type($table) `,` type($indices) `->` type($result)";
  let hasVerifier = 1;
}

def ScatterAddOp : Msamp_Op<"scatter_add", [Pure]> {
  let summary = "sum of updates into a table of zeros, by index";
  let description = [{
    The transpose of gather at axis 0: `result[indices[i]] += updates[i]`, in the order of `i`, accumulated in FP32.
  }];
  let arguments = (ins Msamp_FloatTensor:$updates, Msamp_IndexTensor:$indices);
  let results = (outs Msamp_FloatTensor:$result);
  let assemblyFormat = "$updates `at` $indices attr-dict `:` type($updates) `,` type($indices) `->` type($result)";
}

//===--- Computation -----------------------------------------------------------------------------------------===//

def MatMulOp : Msamp_Op<"matmul", [Pure, AttrSizedOperandSegments, ProductOpInterface,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "matrix product, batched over equal leading dimensions";
  let description = [{
    `a` is [batch.., M, K] ([batch.., K, M] with transpose_a), `b` is [batch.., K, N] ([batch.., N, K] with transpose_b).
    Accumulates in FP32. A linear layer is the rank-2 form with a parameter as `b`. `addend`, of the result's shape, and
    `bias`, of N values, are added before the result is rounded; both come into being after autodiff. `fp8_values`: the operands
    hold values of FP8 types.
  }];
  let arguments = (ins Msamp_FloatTensor:$a, Msamp_FloatTensor:$b, Optional<Msamp_FloatTensor>:$addend,
      Optional<Msamp_FloatTensor>:$bias, UnitAttr:$transpose_a, UnitAttr:$transpose_b, UnitAttr:$fp8_values);
  let results = (outs Msamp_FloatTensor:$result);
  let assemblyFormat = [{$a `,` $b (`addend` $addend^ `:` type($addend))? (`bias` $bias^ `:` type($bias))? attr-dict `:`
      type($a) `,` type($b) `->` type($result)}];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$a, "::mlir::Value":$b,
      "bool":$transposeA, "bool":$transposeB), [{
    build($_builder, $_state, result, a, b, ::mlir::Value(), ::mlir::Value(), transposeA, transposeB);
  }]>];
  let hasVerifier = 1;
}

def ScaledMatMulOp : Msamp_Op<"scaled_matmul", [Pure, AttrSizedOperandSegments, ProductOpInterface]> {
  let summary = "rank-2 product of FP8 matrices with scales";
  let description = [{
    `result = (a * b) / (scale_a * scale_b)`, accumulated in FP32. A scale is of rank 0, or of rank 1 with one entry a row
    of the result (`scale_a`) or a column (`scale_b`). Scales of blocks are of rank 2, whatever the layout of the operand:
    [M, K / 128] or [M / 128, K / 128] for `a`, [N, K / 128] or [N / 128, K / 128] for `b`, rounded up; the other scale is then
    of rank 2 or 0. `addend` and `bias` are as in matmul. With `scale_out` the result is
    quantised: FP8, multiplied by that scale, and `amax` is the largest magnitude before.

    ```mlir
    %g, %amax = msamp.scaled_matmul %x, %dy scales %sx, %sdy quantised %s : tensor<f32> {transpose_a}
        : tensor<64x32xf8E4M3FN>, tensor<64x16xf8E5M2>, tensor<f32>, tensor<f32> -> tensor<32x16xf8E4M3FN>, tensor<f32>
    ```
  }];
  let arguments = (ins Msamp_FloatTensor:$a, Msamp_FloatTensor:$b, Msamp_FloatTensor:$scale_a,
      Msamp_FloatTensor:$scale_b, Optional<Msamp_FloatTensor>:$addend, Optional<Msamp_FloatTensor>:$bias,
      Optional<Msamp_Scalar>:$scale_out, UnitAttr:$transpose_a, UnitAttr:$transpose_b);
  let results = (outs Msamp_FloatTensor:$result, Optional<Msamp_Scalar>:$amax);
  let assemblyFormat = [{$a `,` $b `scales` $scale_a `,` $scale_b (`addend` $addend^ `:` type($addend))?
      (`bias` $bias^ `:` type($bias))? (`quantised` $scale_out^ `:` type($scale_out))? attr-dict `:`
      type($a) `,` type($b) `,` type($scale_a) `,` type($scale_b) `->` type($result) (`,` type($amax)^)?}];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$a, "::mlir::Value":$b,
      "::mlir::Value":$scaleA, "::mlir::Value":$scaleB, "bool":$transposeA, "bool":$transposeB), [{
    build($_builder, $_state, result, ::mlir::Type(), a, b, scaleA, scaleB, ::mlir::Value(), ::mlir::Value(),
        ::mlir::Value(), transposeA, transposeB);
  }]>];
  let hasVerifier = 1;
}

def LayerNormOp : Msamp_Op<"layer_norm", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "normalisation of the last dimension to mean 0 and variance 1";
  let description = [{
    `y = (x - mean) * rstd * scale + shift`, `rstd = 1 / sqrt(var + eps)`; mean and rstd have the shape of `x` without its
    last dimension (FP32). Ba et al., "Layer Normalization", 2016, eq. 4.
  }];
  let arguments = (ins Msamp_FloatTensor:$x, Optional<Msamp_FloatTensor>:$scale, Optional<Msamp_FloatTensor>:$shift,
      F64Attr:$eps);
  let results = (outs Msamp_FloatTensor:$y, Msamp_FloatTensor:$mean, Msamp_FloatTensor:$rstd);
  let assemblyFormat = [{$x (`scale` $scale^ `:` type($scale))? (`shift` $shift^ `:` type($shift))? attr-dict `:`
      type($x) `->` type($y) `,` type($mean) `,` type($rstd)}];
  let hasVerifier = 1;
}

def RmsNormOp : Msamp_Op<"rms_norm", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "division of the last dimension by its root mean square";
  let description = [{ `y = x * rstd * scale`, `rstd = 1 / sqrt(mean(x^2) + eps)`. Zhang and Sennrich, 2019, eq. 4. }];
  let arguments = (ins Msamp_FloatTensor:$x, Optional<Msamp_FloatTensor>:$scale, F64Attr:$eps);
  let results = (outs Msamp_FloatTensor:$y, Msamp_FloatTensor:$rstd);
  let assemblyFormat = "$x (`scale` $scale^ `:` type($scale))? attr-dict `:` type($x) `->` type($y) `,` type($rstd)";
  let hasVerifier = 1;
}

def BatchNormOp : Msamp_Op<"batch_norm", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "normalisation of each column over all rows to mean 0 and variance 1";
  let description = [{
    `y = (x - mean) * (scale / sqrt(variance + eps)) + shift`, with the mean and the variance (of n, not n - 1) of the rows of
    this micro-batch on this rank: one value a column, FP32. A column is what the last dimension counts. Ioffe and Szegedy,
    "Batch Normalization", 2015, algorithm 1.
  }];
  let arguments = (ins Msamp_FloatTensor:$x, Msamp_FloatTensor:$scale, Msamp_FloatTensor:$shift, F64Attr:$eps);
  let results = (outs Msamp_FloatTensor:$y, Msamp_FloatTensor:$mean, Msamp_FloatTensor:$variance);
  let assemblyFormat = [{$x `scale` $scale `:` type($scale) `shift` $shift `:` type($shift) attr-dict `:`
      type($x) `->` type($y) `,` type($mean) `,` type($variance)}];
  let hasVerifier = 1;
}

def SoftmaxOp : Msamp_Op<"softmax", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "softmax of the last dimension";
  let arguments = (ins Msamp_FloatTensor:$x);
  let results = (outs Msamp_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
}

def GeluOp : Msamp_Op<"gelu", [Pure, Elementwise, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    `x * Phi(x)`; with `tanh` its approximation `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`. Hendrycks and Gimpel,
    2016, section 2.
  }];
  let arguments = (ins Msamp_FloatTensor:$x, UnitAttr:$tanh);
  let results = (outs Msamp_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($y)";
}

def GeluGradOp : Msamp_Op<"gelu_grad", [Pure, Elementwise, SameOperandsAndResultShape]> {
  let summary = "dy times the derivative of gelu at x";
  let arguments = (ins Msamp_FloatTensor:$dy, Msamp_FloatTensor:$x, UnitAttr:$tanh);
  let results = (outs Msamp_FloatTensor:$dx);
  let assemblyFormat = "$dy `,` $x attr-dict `:` type($dy) `,` type($x) `->` type($dx)";
}

def SwigluOp : Msamp_Op<"swiglu", [Pure, Elementwise, SameOperandsAndResultShape,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "gate * sigmoid(gate) * up";
  let description = [{ Shazeer, "GLU Variants Improve Transformer", 2020, eq. 6. }];
  let arguments = (ins Msamp_FloatTensor:$gate, Msamp_FloatTensor:$up);
  let results = (outs Msamp_FloatTensor:$y);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($gate) `,` type($up) `->` type($y)";
}

def RotaryOp : Msamp_Op<"rotary", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "rotary position embedding of the halves of the last dimension";
  let description = [{
    With h = D/2 and index i < h: `y[i] = x[i] cos[i] - x[i+h] sin[i]`, `y[i+h] = x[i+h] cos[i+h] + x[i] sin[i+h]`.
    `transposed` is its adjoint: `y[i] = x[i] cos[i] + x[i+h] sin[i+h]`, `y[i+h] = x[i+h] cos[i+h] - x[i] sin[i]`.
    cos and sin are FP32 of `x`'s shape (usually broadcasts of a table [T, D]). Su et al., "RoFormer", 2021, eq. 34.
  }];
  let arguments = (ins Msamp_FloatTensor:$x, Msamp_FloatTensor:$cos, Msamp_FloatTensor:$sin, UnitAttr:$transposed);
  let results = (outs Msamp_FloatTensor:$y);
  let assemblyFormat = "$x `,` $cos `,` $sin attr-dict `:` type($x) `,` type($cos) `,` type($sin) `->` type($y)";
}

def AttentionOp : Msamp_Op<"attention", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "scaled dot-product attention";
  let description = [{
    q [B, T, H, D], k [B, S, G, D], v [B, S, G, E] -> o [B, T, H, E], with H a multiple of G (grouped queries: head h reads
    group h / (H / G)). `scores = q.k * scale + bias`; with `causal`, entries s > t + S - T are left out. `bias` has shape
    [B or 1, H or 1, T, S] and carries masks and position biases; it gets no gradient. A row that is masked whole gives 0.
    `lse` [B, H, T] is the log-sum-exp of the scores (FP32).
  }];
  let arguments = (ins Msamp_FloatTensor:$q, Msamp_FloatTensor:$k, Msamp_FloatTensor:$v,
      Optional<Msamp_FloatTensor>:$bias, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Msamp_FloatTensor:$o, Msamp_FloatTensor:$lse);
  let assemblyFormat = [{$q `,` $k `,` $v (`bias` $bias^ `:` type($bias))? attr-dict `:`
      type($q) `,` type($k) `,` type($v) `->` type($o) `,` type($lse)}];
  let hasVerifier = 1;
}

def AttentionGradOp : Msamp_Op<"attention_grad", [Pure]> {
  let summary = "gradients of attention";
  let arguments = (ins Msamp_FloatTensor:$d_o, Msamp_FloatTensor:$q, Msamp_FloatTensor:$k, Msamp_FloatTensor:$v,
      Msamp_FloatTensor:$o, Msamp_FloatTensor:$lse, Optional<Msamp_FloatTensor>:$bias, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Msamp_FloatTensor:$d_q, Msamp_FloatTensor:$d_k, Msamp_FloatTensor:$d_v);
  let assemblyFormat = [{$d_o `,` $q `,` $k `,` $v `,` $o `,` $lse (`bias` $bias^ `:` type($bias))? attr-dict `:`
      type($d_o) `,` type($q) `,` type($k) `,` type($v) `,` type($o) `,` type($lse) `->`
      type($d_q) `,` type($d_k) `,` type($d_v)}];
}

//===--- Windows over images, channels last ------------------------------------------------------------------===//

def ConvOp : Msamp_Op<"conv", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "convolution";
  let description = [{
    x [N, positions.., C], filter [O, size.., C / groups] -> y [N, windows.., O]: each window of the image times each
    filter, summed in FP32. Output channels are in `groups` runs, each of which reads as many of the input's. The window's
    size is the filter's.

    ```mlir
    %y = msamp.conv %x, %f <[3, 3] by [1, 1] low [1, 1] high [1, 1] dilated [1, 1]> groups 1
        : tensor<2x8x8x16xf32>, tensor<32x3x3x16xf32> -> tensor<2x8x8x32xf32>
    ```
  }];
  let arguments = (ins Msamp_FloatTensor:$x, Msamp_FloatTensor:$filter, WindowAttr:$window, I64Attr:$groups);
  let results = (outs Msamp_FloatTensor:$y);
  let assemblyFormat = "$x `,` $filter $window `groups` $groups attr-dict `:` type($x) `,` type($filter) `->` type($y)";
  let hasVerifier = 1;
}

def ConvDgradOp : Msamp_Op<"conv_dgrad", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "gradient of a convolution's image: the transposed convolution";
  let arguments = (ins Msamp_FloatTensor:$d_y, Msamp_FloatTensor:$filter, WindowAttr:$window, I64Attr:$groups);
  let results = (outs Msamp_FloatTensor:$d_x);
  let assemblyFormat = [{$d_y `,` $filter $window `groups` $groups attr-dict `:`
      type($d_y) `,` type($filter) `->` type($d_x)}];
  let hasVerifier = 1;
}

def ConvWgradOp : Msamp_Op<"conv_wgrad", [Pure]> {
  let summary = "gradient of a convolution's filters";
  let arguments = (ins Msamp_FloatTensor:$x, Msamp_FloatTensor:$d_y, WindowAttr:$window, I64Attr:$groups);
  let results = (outs Msamp_FloatTensor:$d_filter);
  let assemblyFormat = [{$x `,` $d_y $window `groups` $groups attr-dict `:`
      type($x) `,` type($d_y) `->` type($d_filter)}];
  let hasVerifier = 1;
}

def Msamp_Taps : StaticShapeTensorOf<[UI8]>;

def MaxPoolOp : Msamp_Op<"max_pool", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "largest value of each window of an image";
  let description = [{
    x [N, positions.., C] -> y [N, windows.., C] and, of the same shape, the `tap` of the window (row-major, padding
    counted) that holds it, the first of equal ones. NaN is larger than all else. Padding is never taken; each window has
    a tap on the image, and at most 256.
  }];
  let arguments = (ins Msamp_FloatTensor:$x, WindowAttr:$window);
  let results = (outs Msamp_FloatTensor:$y, Msamp_Taps:$tap);
  let assemblyFormat = "$x $window attr-dict `:` type($x) `->` type($y) `,` type($tap)";
  let hasVerifier = 1;
}

def MaxPoolGradOp : Msamp_Op<"max_pool_grad", [Pure]> {
  let summary = "gradient of max_pool: each value to the position that it was taken from, summed in FP32";
  let arguments = (ins Msamp_FloatTensor:$d_y, Msamp_Taps:$tap, WindowAttr:$window);
  let results = (outs Msamp_FloatTensor:$d_x);
  let assemblyFormat = "$d_y `,` $tap $window attr-dict `:` type($d_y) `,` type($tap) `->` type($d_x)";
  let hasVerifier = 1;
}

def AvgPoolOp : Msamp_Op<"avg_pool", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "mean of each window of an image";
  let description = [{
    x [N, positions.., C] -> y [N, windows.., C]: the sum of the taps on the image over their number; with
    `count_padding` over the number of those on the image or its padding.
  }];
  let arguments = (ins Msamp_FloatTensor:$x, WindowAttr:$window, UnitAttr:$count_padding);
  let results = (outs Msamp_FloatTensor:$y);
  let assemblyFormat = "$x $window attr-dict `:` type($x) `->` type($y)";
  let hasVerifier = 1;
}

def AvgPoolGradOp : Msamp_Op<"avg_pool_grad", [Pure]> {
  let summary = "gradient of avg_pool: each value over its window's count to all taps on the image, summed in FP32";
  let arguments = (ins Msamp_FloatTensor:$d_y, WindowAttr:$window, UnitAttr:$count_padding);
  let results = (outs Msamp_FloatTensor:$d_x);
  let assemblyFormat = "$d_y $window attr-dict `:` type($d_y) `->` type($d_x)";
  let hasVerifier = 1;
}

//===--- Loss ------------------------------------------------------------------------------------------------===//

def CrossEntropyOp : Msamp_Op<"cross_entropy", [Pure, DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "mean cross-entropy of rows of logits against class indices";
  let description = [{
    logits [R, V], labels [R] -> loss (rank 0): the mean over rows whose label is not `ignore_index` of
    `lse(row) - row[label]`. `lse` [R] is the log-sum-exp of each row; `valid` (rank 0, FP32) the number of such rows, at least 1.
  }];
  let arguments = (ins Msamp_FloatTensor:$logits, Msamp_IndexTensor:$labels, I64Attr:$ignore_index);
  let results = (outs Msamp_FloatTensor:$loss, Msamp_FloatTensor:$lse, Msamp_FloatTensor:$valid);
  let assemblyFormat = [{$logits `,` $labels attr-dict `:` type($logits) `,` type($labels) `->`
      type($loss) `,` type($lse) `,` type($valid)}];
  let hasVerifier = 1;
}

//===--- FP8 -------------------------------------------------------------------------------------------------===//

def QuantizeOp : Msamp_Op<"quantize", [Pure]> {
  let summary = "values times scale, rounded to FP8";
  let description = [{
    Rounds `x * scale` to nearest even and saturates; NaN stays NaN. `scale` has rank 0, or `x`'s shape without its
    last dimension (a scale a row).
  }];
  let arguments = (ins Msamp_FloatTensor:$x, Msamp_FloatTensor:$scale);
  let results = (outs Msamp_FloatTensor:$result);
  let assemblyFormat = "$x `,` $scale attr-dict `:` type($x) `,` type($scale) `->` type($result)";
  let hasVerifier = 1;
}

def ScaleOfOp : Msamp_Op<"scale_of", [Pure, Elementwise, SameOperandsAndResultShape]> {
  let summary = "power-of-two scale that brings an amax into a format's range";
  let description = [{
    `2^(floor(log2(max(format) / amax)) - margin)`, kept within 2^-126 and 2^126; 1 where amax is 0. An amax that is not
    finite gives 1 (the step is skipped by its gradient norm).
  }];
  let arguments = (ins Msamp_FloatTensor:$amax, TypeAttr:$format, DefaultValuedAttr<I64Attr, "0">:$margin);
  let results = (outs Msamp_FloatTensor:$scale);
  let assemblyFormat = "$amax $format attr-dict `:` type($amax) `->` type($scale)";
}

def TrackOp : Msamp_Op<"track", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "gives a running statistic its next value";
  let description = [{
    In the forward of each micro-batch. On several ranks each has its own, of the micro-batches that it sees.
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, Msamp_FloatTensor:$value);
  let assemblyFormat = "$param `,` $value attr-dict `:` type($value)";
}

//===--- Distribution and update -----------------------------------------------------------------------------===//

def StoreGradOp : Msamp_Op<"store_grad"> {
  let summary = "writes the gradient of a parameter into its place in its bucket";
  let description = [{
    `accumulate`: adds to what earlier micro-batches of the step left there (the first one overwrites). `scale`, for FP8
    gradients, is what the values were multiplied by.
  }];
  let arguments = (ins FlatSymbolRefAttr:$param, Msamp_FloatTensor:$grad, Optional<Msamp_FloatTensor>:$scale,
      UnitAttr:$accumulate);
  let assemblyFormat = "$param `,` $grad (`scale` $scale^ `:` type($scale))? attr-dict `:` type($grad)";
}

def ExchangeOp : Msamp_Op<"exchange"> {
  let summary = "sum of a bucket's gradients over the data-parallel ranks";
  let description = [{
    All-to-all in `wire` type, sum in FP32 in the order of ranks, result back in the bucket's storage type, all-gathered
    with `zero` 0, on the owner's shard only with 1. Nothing to do with one rank.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, TypeAttr:$wire, I64Attr:$zero);
  let assemblyFormat = "$bucket `wire` $wire `zero` $zero attr-dict";
}

def GradNormOp : Msamp_Op<"grad_norm"> {
  let summary = "global norm of all gradients, clip factor and skip flag into the step's control block";
  let arguments = (ins);
  let assemblyFormat = "attr-dict";
}

def UpdateOp : Msamp_Op<"update"> {
  let summary = "optimizer step of all parameters of a state class";
  let description = [{
    One multi-tensor update over this rank's shard: gradient scaled by the clip factor, moments, decoupled weight decay,
    master, stored weights, their scales and amax. `optimizer` is adamw, adam or sgd. Loshchilov and Hutter, 2019, algorithm 2.
  }];
  let arguments = (ins StateClassAttr:$state_class, StrAttr:$optimizer);
  let assemblyFormat = "$state_class $optimizer attr-dict";
}

def GatherWeightsOp : Msamp_Op<"gather_weights"> {
  let summary = "all-gather of updated weights from their shards";
  let arguments = (ins StateClassAttr:$state_class);
  let assemblyFormat = "$state_class attr-dict";
}

def UpdateSitesOp : Msamp_Op<"update_sites"> {
  let summary = "delayed scales of all sites from their histories";
  let description = [{ Pushes the recorded amax, takes the largest of the history, skips sites whose amax is not finite. }];
  let arguments = (ins I64Attr:$history);
  let assemblyFormat = "`history` $history attr-dict";
}

//===--- Clusters --------------------------------------------------------------------------------------------===//

def ClusterOp : Msamp_Op<"cluster", [IsolatedFromAbove, SingleBlock]> {
  let summary = "ops that run as one kernel";
  let description = [{
    The region's arguments are the operands; `msamp.yield` gives the results. Inside are pointwise arith/math ops,
    broadcast, reduce, reshape, transpose, slice, concat (at the end), iota, quantize and scale_of, each over one iteration domain.
  }];
  let arguments = (ins Variadic<Msamp_Tensor>:$inputs);
  let results = (outs Variadic<Msamp_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict-with-keyword $body `:` functional-type($inputs, $results)";
}

def YieldOp : Msamp_Op<"yield", [Pure, Terminator, HasParent<"ClusterOp">]> {
  let summary = "results of a cluster";
  let arguments = (ins Variadic<Msamp_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
