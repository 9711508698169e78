// Passes of the precision phase.
#ifndef MSAMP_PRECISION_PASSES
#define MSAMP_PRECISION_PASSES

include "mlir/Pass/PassBase.td"

def AssignStateClasses : Pass<"msamp-assign-state-classes", "::mlir::ModuleOp"> {
  let summary = "decide how each trained parameter's training state is stored";
  let description = [{
    Sets `state_class`: scaled for the matrices of linear layers at O1 to O3, plain for all others. A matrix stays plain
    when it is the head, is tied to a table, or a dimension of its GEMMs is no multiple of 16 (cuBLASLt's FP8 GEMM wants
    16 bytes), each with a remark. With `fp8-head` the head's matrix is scaled like others; a table that is the head, too, stays
    plain, and `fp8_gemms` says that its products are FP8. Level and recipe become attributes of the module for the phases that follow.
  }];
  let options = [
    Option<"level", "level", "std::string", "\"fp32\"", "fp32, bf16, O1, O2 or O3">,
    Option<"recipe", "recipe", "std::string", "\"delayed\"", "delayed, current, rowwise or block">,
    Option<"accumulate", "accumulate", "int64_t", "1", "micro-batches a step">,
    Option<"fp8Head", "fp8-head", "bool", "false", "the head's GEMMs are FP8, too">,
    ListOption<"margins", "margins", "int64_t",
        "powers of two that delayed scales stay below the format's range: of activations, their gradients, weight "
        "gradients (default 0,0,0)">];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def QuantizeLinears : Pass<"msamp-quantize-linears", "::mlir::ModuleOp"> {
  let summary = "make the three GEMMs of each linear layer FP8";
  let description = [{
    fprop `x w`, dgrad `dy w` and wgrad `x dy` become `msamp.scaled_matmul` of E4M3 (x, w) and E5M2 (dy) operands, with
    scales by recipe: a delayed site a tensor, current amax a tensor, a current scale a row for fprop and dgrad with a
    delayed one a tensor for wgrad, or current ones of blocks: of 1 x 128 along the summed dimension for x and dy, of 128 x 128 for
    w. Stored FP8 weights keep the one scale that they have. A tensor that several GEMMs read is quantised once. FP16 weights are quantised again in
    the backward (marked `msamp.rebuilt`), where keeping them would cost a byte a parameter.
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def ConvertGradients : Pass<"msamp-convert-gradients", "::mlir::ModuleOp"> {
  let summary = "bring each returned gradient to its storage type";
  let description = [{
    BF16 for the plain class, FP8 for the scaled one (with a site of kind weight_grad, or current), FP32 where several
    micro-batches accumulate.
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def RoundActivations : Pass<"msamp-round-activations", "::mlir::ModuleOp"> {
  let summary = "keep what is written to memory in BF16";
  let description = [{
    Results and operands of library ops and values that live across a library op become BF16; pointwise ops and
    reductions go on in FP32 on widened operands, so a chain that fuses is never rounded inside. Row statistics and
    gradients of vectors stay FP32. Plain weights get their storage type.
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

#endif
