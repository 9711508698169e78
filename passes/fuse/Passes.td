// Passes of the fuse phase.
#ifndef MSAMP_PASSES_FUSE_PASSES_TD
#define MSAMP_PASSES_FUSE_PASSES_TD

include "mlir/Pass/PassBase.td"

def ExpandNamedOps : Pass<"msamp-expand-named-ops", "::mlir::ModuleOp"> {
  let summary = "write named row-wise and pointwise ops as arith, math, reduce and broadcast";
  let description = [{
    layer_norm, rms_norm, softmax, gelu, gelu_grad, swiglu, rotary and cross_entropy become the ops that a kernel computes. Reductions over
    dimensions that no single loop nest reduces are split in two. Afterwards none of the named ops is left.

    ```mlir
    %y = msamp.softmax %x : tensor<8x16xf32> -> tensor<8x16xf32>
    // becomes
    %m = msamp.reduce max %x dims = [1] : tensor<8x16xf32> -> tensor<8xf32>
    %mb = msamp.broadcast %m dims = [0] : tensor<8xf32> -> tensor<8x16xf32>
    %c = arith.subf %x, %mb : tensor<8x16xf32>
    %e = math.exp %c : tensor<8x16xf32>
    ...
    ```
  }];
}

def WidenProducts : Pass<"msamp-widen-products", "::mlir::ModuleOp"> {
  let summary = "multiply FP8 values in BF16, for tensor cores without FP8";
  let description = [{
    A product of FP8 operands becomes one of BF16 operands that hold the same values: `stored / scale`, exactly, since scales
    are powers of two and BF16 has the exponents of FP32 and more digits than FP8. So the product differs from that of FP8
    tensor cores in the order of its sums alone. Kernels that quantise a tensor for a product of their side (forward,
    backward) write the BF16 values as well; weights and what the forward keeps stay in FP8 in memory and are widened by a
    kernel before their product. To run before QuantizeInGemms, as there is no BF16 product that writes FP8.

    ```mlir
    %y = msamp.scaled_matmul %x8, %w8 scales %sx, %sw : tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN>, tensor<f32>, tensor<f32> -> tensor<64x16xbf16>
    // becomes
    %xi = arith.divf %one, %sx : tensor<f32>
    %xb = msamp.broadcast %xi dims = [] : tensor<f32> -> tensor<64x32xf32>
    %xe = arith.extf %x8 : tensor<64x32xf8E4M3FN> to tensor<64x32xf32>
    %xv = arith.mulf %xe, %xb : tensor<64x32xf32>
    %x = arith.truncf %xv : tensor<64x32xf32> to tensor<64x32xbf16>
    ...
    %y = msamp.matmul %x, %w : tensor<64x32xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def FoldIntoGemms : Pass<"msamp-fold-into-gemms", "::mlir::ModuleOp"> {
  let summary = "let GEMMs add biases and residuals as they store their result";
  let description = [{
    A product that is only added to a bias or to a stored tensor of its shape, and then rounded, takes both as operands:
    the sum costs no pass over memory, and is rounded once.

    ```mlir
    %p = msamp.matmul %x, %w : tensor<64x32xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
    %e = arith.extf %p : tensor<64x16xbf16> to tensor<64x16xf32>
    %s = arith.addf %e, %residual : tensor<64x16xf32>         // extf of a stored tensor %r
    %y = arith.truncf %s : tensor<64x16xf32> to tensor<64x16xbf16>
    // becomes
    %y = msamp.matmul %x, %w addend %r : tensor<64x16xbf16> : tensor<64x32xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
    ```
  }];
}

def QuantizeInGemms : Pass<"msamp-quantize-in-gemms", "::mlir::ModuleOp"> {
  let summary = "let GEMMs quantise weight gradients as they store their result";
  let description = [{
    An FP32 product of FP8 operands that is only quantised with a delayed scale is written as FP8, and its amax comes with it.
    One that goes on with a sum (over chunks of tokens) stays FP32.
  }];
}

def TransposeOperands : Pass<"msamp-transpose-operands", "::mlir::ModuleOp"> {
  let summary = "give FP8 GEMMs operands whose summed dimension is innermost";
  let description = [{
    Hopper's FP8 GEMM takes no other layout. A transposed copy is made once of each quantised tensor, where its producer can
    store it beside the tensor itself, or instead; one of a stored weight right before each use, so that it lives briefly.
  }];
}

def ChunkLoss : Pass<"msamp-chunk-loss", "::mlir::ModuleOp"> {
  let summary = "compute logits, loss and their gradients a chunk of tokens at a time";
  let description = [{
    In @micro_step, a product whose result exceeds `bytes` and is used only row by row (a softmax and its gradient) or
    summed over rows (weight and bias gradients) is cut along its rows, and with it everything that holds a value of its
    size. Each chunk's results are parts of concatenations or, where rows are summed, accumulated in FP32 in order. No chunk
    shares a kernel with another one, so that its memory is free when the next one begins. Of FP8 operands a delayed site
    records the amax of each chunk, and a current scale is that of the chunk. Where the number of classes is no
    multiple of `align`, all of that size gets more columns, which no reduction, product or sum sees.
  }];
  let options = [Option<"bytes", "bytes", "int64_t", "512 << 20", "most bytes of a result; 0: never cut">,
    Option<"align", "align", "int64_t", "1", "columns of a cut result are padded to a multiple of this">];
}

def MarkBackward : Pass<"msamp-mark-backward", "::mlir::ModuleOp"> {
  let summary = "set msamp.backward on the ops of the backward";
  let description = [{
    An expression that forward and backward both compute (the normalised input of a norm, the inner part of a GELU) is
    computed twice rather than kept in FP32 between the two: the mark keeps CSE from merging them, and clusters from
    spanning both. With scales of blocks it also tells what recompute rebuilt from what the backward computes.
  }];
}

def NarrowReductions : Pass<"msamp-narrow-reductions", "::mlir::ModuleOp"> {
  let summary = "round sums over rows where they are stored";
  let description = [{
    A bias or norm gradient that is only rounded after its sum is complete is rounded by the kernel that completes it,
    instead of by a kernel of its own: the reduction has the narrow result type, and accumulates in FP32.
  }];
}

def RewriteReductions : Pass<"msamp-rewrite-reductions", "::mlir::ModuleOp"> {
  let summary = "make reductions ones that a loop nest takes";
  let description = [{
    Sums over inner and outer dimensions around what they keep become two. Where a reduction reads an image through views that
    no loop nest follows (a group of channels of one that has them last), the nearest transpose is stored in memory.
  }];
}

def FormClusters : Pass<"msamp-form-clusters", "::mlir::ModuleOp"> {
  let summary = "gather ops into clusters that run as one kernel";
  let description = [{
    Goes through each function once, in order, and puts every fusible op into the cluster of its producers, or of others
    that read the same tensor, as long as one loop nest computes all of them and no path leaves the cluster and comes back.
    Ops without computation (views, broadcasts, splats, widening) are cloned into the clusters that use them. Afterwards each op is a cluster, a
    library call, a view, a collective or an access to a symbol.
  }];
  let options = [Option<"maxOps", "max-ops", "unsigned", "256", "most ops in a cluster">];
}

#endif
