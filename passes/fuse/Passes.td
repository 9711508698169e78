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

def MarkBackward : Pass<"msamp-mark-backward", "::mlir::ModuleOp"> {
  let summary = "set msamp.backward on the ops of the backward";
  let description = [{
    An expression that forward and backward both compute (the normalised input of a norm, the inner part of a GELU) is
    computed twice rather than kept in FP32 between the two: the mark keeps CSE from merging them, and clusters from
    spanning both.
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
