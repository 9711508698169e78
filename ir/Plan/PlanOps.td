// Operations of the Plan dialect: programs, memory, kernels and the kinds of steps.
#ifndef MSAMP_PLAN_OPS_TD
#define MSAMP_PLAN_OPS_TD

include "ir/Plan/PlanDialect.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Plan_Memory : StaticShapeMemRefOf<[AnyFloat, AnyInteger]>;

//===--- Programs, kernels and memory ------------------------------------------------------------------------===//

def ProgramOp : Plan_Op<"program", [Symbol, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "steps in the order in which they run";
  let description = [{
    `arena` is the size of the program's arena in bytes, `workspace` the part of it that holds workspace buffers at the
    step with the most live bytes. `outputs` are the names of what the program returns, in order.

    ```mlir
    plan.program @micro_step arena 8192 workspace 0 outputs ["loss"] { ... }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$arena, I64Attr:$workspace, StrArrayAttr:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `arena` $arena `workspace` $workspace `outputs` $outputs attr-dict-with-keyword $body";
}

def KernelOp : Plan_Op<"kernel", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "compiled cluster";
  let description = [{
    The region holds one `msamp.cluster` over the block arguments. A launch passes the cluster's operands, then its
    results, then `workspace` bytes of scratch. The work is cut in `chunks` independent parts; `finish` says that a
    second function combines them.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$chunks, UnitAttr:$finish, I64Attr:$workspace, StrAttr:$ops);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{$sym_name `chunks` $chunks (`finish` $finish^)? `workspace` $workspace `ops` $ops
      attr-dict-with-keyword $body}];
  let hasVerifier = 1;
}

def ConstantOp : Plan_Op<"constant", [Symbol]> {
  let summary = "tensor in the plan's file of constants";
  let arguments = (ins SymbolNameAttr:$sym_name, ElementsAttr:$value);
  let assemblyFormat = "$sym_name $value attr-dict";
}

def BufferOp : Plan_Op<"buffer", [HasParent<"ProgramOp">]> {
  let summary = "region of the program's arena";
  let description = [{
    `offset` and `lifetime` (index of the first and the last step that touch it) are absent until arenas are laid out.
  }];
  let arguments = (ins StrAttr:$name, BufferRoleAttr:$role, OptionalAttr<I64Attr>:$offset,
      OptionalAttr<DenseI64ArrayAttr>:$lifetime);
  let results = (outs Plan_Memory:$memory);
  let assemblyFormat = "$name $role (`at` $offset^)? (`steps` $lifetime^)? attr-dict `:` type($memory)";
  let extraClassDeclaration = [{
    int64_t getSizeInBytes() { return ::mlir::cast<::mlir::MemRefType>(getMemory().getType()).getNumElements(); }
  }];
  let hasVerifier = 1;
}

def PlaceOp : Plan_Op<"place", [Pure]> {
  let summary = "memory that outlives the program";
  let description = [{
    `name` is an input, an output, a plan.constant, an msamp.parameter or an msamp.site, as `kind` says.

    ```mlir
    %0 = plan.place weight "h.0.qkv.weight" : memref<128x384xbf16>
    ```
  }];
  let arguments = (ins PlaceKindAttr:$kind, StrAttr:$name);
  let results = (outs Plan_Memory:$memory);
  let assemblyFormat = "$kind $name attr-dict `:` type($memory)";
}

def ViewOp : Plan_Op<"view", [Pure]> {
  let summary = "typed, strided part of a buffer or a place";
  let description = [{ The result starts `offset` bytes into `base`; its strides are in its elements. }];
  let arguments = (ins Plan_Memory:$base, I64Attr:$offset);
  let results = (outs Plan_Memory:$view);
  let assemblyFormat = "$base `at` $offset attr-dict `:` type($base) `->` type($view)";
  let hasVerifier = 1;
}

//===--- Steps -----------------------------------------------------------------------------------------------===//

class Plan_Step<string mnemonic, dag own, string ownFormat = ""> : Plan_Op<mnemonic,
    [AttrSizedOperandSegments, DeclareOpInterfaceMethods<StepOpInterface>, HasParent<"ProgramOp">]> {
  dag common = (ins Variadic<Plan_Memory>:$inputs, Variadic<Plan_Memory>:$outputs, Variadic<Plan_Memory>:$workspace,
      UnitAttr:$first, DefaultValuedAttr<I64Attr, "0">:$bytes, DefaultValuedAttr<I64Attr, "0">:$flops);
  let arguments = !con(own, common);
  let assemblyFormat = ownFormat # [{ (`first` $first^)? `(` $inputs `)` `writes` `(` $outputs `)`
      (`workspace` `(` $workspace^ `:` type($workspace) `)`)? attr-dict `:` functional-type($inputs, $outputs)}];
}

def LaunchOp : Plan_Step<"launch", (ins FlatSymbolRefAttr:$kernel), "$kernel"> {
  let summary = "run of a kernel";
}
def MatMulOp : Plan_Step<"matmul", (ins UnitAttr:$transpose_a, UnitAttr:$transpose_b, UnitAttr:$scaled,
    UnitAttr:$has_addend, UnitAttr:$has_bias, UnitAttr:$quantised, UnitAttr:$fp8_values)> {
  let summary = "matrix product of `a` and `b`, divided by the product of two scales if `scaled`";
  let description = [{
    Inputs: a, b [, scale_a, scale_b] [, addend] [, bias] [, scale_out]; outputs: c [, amax]. The addend may lie where c does.
    `fp8_values`: a and b hold values of FP8 types, in these or in BF16.
  }];
}
def AttentionOp : Plan_Step<"attention", (ins F64Attr:$scale, UnitAttr:$causal, UnitAttr:$bias)> {
  let summary = "attention: q, k, v [, bias] to o, lse";
}
def AttentionGradOp : Plan_Step<"attention_grad", (ins F64Attr:$scale, UnitAttr:$causal, UnitAttr:$bias)> {
  let summary = "attention's gradients: do, q, k, v, o, lse [, bias] to dq, dk, dv";
}
def Plan_Window : Attr<CPred<"::llvm::isa<::msamp::WindowAttr>($_self)">, "windows over an image"> {
  let storageType = "::msamp::WindowAttr";
  let returnType = "::msamp::WindowAttr";
  let convertFromStorage = "$_self";
}

// Images, windows and filters are row-major, channels last.
class Plan_Conv<string mnemonic> : Plan_Step<mnemonic, (ins Plan_Window:$window, I64Attr:$groups),
    "$window `groups` $groups">;
def ConvOp : Plan_Conv<"conv"> {
  let summary = "convolution: x, filter to y";
}
def ConvDgradOp : Plan_Conv<"conv_dgrad"> {
  let summary = "gradient of a convolution's image: dy, filter to dx";
}
def ConvWgradOp : Plan_Conv<"conv_wgrad"> {
  let summary = "gradient of a convolution's filter: x, dy to dfilter";
}
def MaxPoolOp : Plan_Step<"max_pool", (ins Plan_Window:$window), "$window"> {
  let summary = "largest value of each window and its tap: x to y, tap";
}
def MaxPoolGradOp : Plan_Step<"max_pool_grad", (ins Plan_Window:$window), "$window"> {
  let summary = "gradient of max_pool: dy, tap to dx";
}
def AvgPoolOp : Plan_Step<"avg_pool", (ins Plan_Window:$window, UnitAttr:$count_padding), "$window"> {
  let summary = "mean of each window: x to y";
}
def AvgPoolGradOp : Plan_Step<"avg_pool_grad", (ins Plan_Window:$window, UnitAttr:$count_padding), "$window"> {
  let summary = "gradient of avg_pool: dy to dx";
}
def GatherOp : Plan_Step<"gather", (ins I64Attr:$axis)> {
  let summary = "slices of a table by index: table, indices";
}
def ScatterAddOp : Plan_Step<"scatter_add", (ins)> {
  let summary = "sum of updates into a table of zeros: updates, indices";
}
def CopyOp : Plan_Step<"copy", (ins)> {
  let summary = "strided copy between memory of one shape; floats are converted if the types differ";
}
def FillOp : Plan_Step<"fill", (ins F64Attr:$value)> {
  let summary = "one value everywhere";
}
def AccumulateOp : Plan_Step<"accumulate", (ins)> {
  let summary = "sum over the micro-batches of a step; the first one overwrites";
}
def CalibrateOp : Plan_Step<"calibrate", (ins ArrayAttr:$sites), "$sites"> {
  let summary = "scale of each site from its amax, if the site has no history";
}
def RecordAmaxOp : Plan_Step<"record_amax", (ins ArrayAttr:$sites), "$sites"> {
  let summary = "amax of each site into its history";
}
def StoreGradScaleOp : Plan_Step<"store_grad_scale", (ins ArrayAttr:$params), "$params"> {
  let summary = "scale of each stored gradient";
}
def ExchangeOp : Plan_Step<"exchange", (ins FlatSymbolRefAttr:$bucket, TypeAttr:$wire, I64Attr:$zero),
    "$bucket `wire` $wire `zero` $zero"> {
  let summary = "sum of a bucket's gradients over the ranks";
}
def GradNormOp : Plan_Step<"grad_norm", (ins)> {
  let summary = "global norm of the gradients, clip factor and skip flag";
}
def UpdateOp : Plan_Step<"update", (ins I64Attr:$state_class, StrAttr:$optimizer), "$state_class $optimizer"> {
  let summary = "optimizer step of a state class (0 plain, 1 scaled)";
}
def GatherWeightsOp : Plan_Step<"gather_weights", (ins I64Attr:$state_class), "$state_class"> {
  let summary = "all-gather of a class's updated weights";
}
def UpdateSitesOp : Plan_Step<"update_sites", (ins I64Attr:$history), "`history` $history"> {
  let summary = "delayed scales of all sites from their histories";
}

#endif
