// Passes of the raise phase.
#ifndef MSAMP_RAISE_PASSES
#define MSAMP_RAISE_PASSES

include "mlir/Pass/PassBase.td"

def SimplifyLayout : Pass<"msamp-simplify-layout", "::mlir::ModuleOp"> {
  let summary = "merge and cancel reshapes, transposes, slices and broadcasts";
  let description = [{
    Slices move above transposes and reshapes, transposes sink below pointwise ops and into the flags of matmuls,
    reshapes and transposes of broadcasts become broadcasts, and what meets its inverse goes away.

    Before:
    ```mlir
    %0 = msamp.reshape %k : tensor<2x4x32x16xf32> -> tensor<8x32x16xf32>
    %1 = msamp.transpose %0 perm = [0, 2, 1] : tensor<8x32x16xf32> -> tensor<8x16x32xf32>
    %2 = msamp.reshape %1 : tensor<8x16x32xf32> -> tensor<2x4x16x32xf32>
    %3 = msamp.matmul %q, %2 : tensor<2x4x32x16xf32>, tensor<2x4x16x32xf32> -> tensor<2x4x32x32xf32>
    ```
    After:
    ```mlir
    %3 = msamp.matmul %q, %k {transpose_b} : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x32xf32>
    ```
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def RaiseNorms : Pass<"msamp-raise-norms", "::mlir::ModuleOp"> {
  let summary = "layer_norm, rms_norm and batch_norm from their decomposed forms";
  let description = [{
    Any of `x * rsqrt(mean(x^2) + eps)`, `x / sqrt(..)`, `x * (1 / sqrt(..))`, with squares by multiplication or power;
    a layer_norm where x is `y - mean(y)`. A following product with a vector and sum with a vector of the last dimension
    become scale and shift. A batch_norm is the same down the columns, over all dimensions but the last, with a scale and a
    shift: `(x - mean) * (scale / sqrt(variance + eps)) + shift`.

    Before:
    ```mlir
    %sq = arith.mulf %x, %x : tensor<64x128xf32>
    %s = msamp.reduce sum %sq dims = [1] : tensor<64x128xf32> -> tensor<64xf32>
    %m = arith.mulf %s, %c : tensor<64xf32>          // 1 / 128
    %e = arith.addf %m, %eps : tensor<64xf32>
    %r = math.rsqrt %e : tensor<64xf32>
    %b = msamp.broadcast %r dims = [0] : tensor<64xf32> -> tensor<64x128xf32>
    %y = arith.mulf %x, %b : tensor<64x128xf32>
    ```
    After:
    ```mlir
    %y, %rstd = msamp.rms_norm %x {eps = 1.0e-6 : f64} : tensor<64x128xf32> -> tensor<64x128xf32>, tensor<64xf32>
    ```
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def RaiseActivations : Pass<"msamp-raise-activations", "::mlir::ModuleOp"> {
  let summary = "gelu and swiglu from their decomposed forms";
  let description = [{
    An expression that is the polynomial x/2 + x t/2 of x and t, where t = erf(x / sqrt(2)) or
    t = tanh(sqrt(2/pi)(x + 0.044715 x^3)), in whatever order its factors come, becomes a gelu;
    x * sigmoid(x) * y a swiglu.

    Before:
    ```mlir
    %0 = arith.divf %x, %sqrt2 : tensor<64x128xf32>
    %1 = math.erf %0 : tensor<64x128xf32>
    %2 = arith.addf %1, %one : tensor<64x128xf32>
    %3 = arith.mulf %half, %2 : tensor<64x128xf32>
    %4 = arith.mulf %x, %3 : tensor<64x128xf32>
    ```
    After:
    ```mlir
    %4 = msamp.gelu %x : tensor<64x128xf32> -> tensor<64x128xf32>
    ```
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def RaiseRotary : Pass<"msamp-raise-rotary", "::mlir::ModuleOp"> {
  let summary = "rotary from products with cosines and sines of rotated halves";
  let description = [{
    Before:
    ```mlir
    %0 = arith.mulf %x, %cos
    %1 = msamp.concat %minus_second_half, %first_half dim = 3
    %2 = arith.mulf %1, %sin
    %y = arith.addf %0, %2
    ```
    After:
    ```mlir
    %y = msamp.rotary %x, %cos, %sin
    ```
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def RaiseAttention : Pass<"msamp-raise-attention", "::mlir::ModuleOp"> {
  let summary = "attention from matmul, masks, softmax, matmul";
  let description = [{
    Scores may be scaled on q, on k, or themselves, by products or quotients. Added constants and selects on masks
    become the bias; a constant that is 0 on and below the diagonal and at most -1e4 above it becomes `causal`. A bias that
    depends on a trained parameter keeps the pattern decomposed, since attention gives no gradient to it. Guards that
    replace NaN by 0 after the softmax go away: attention gives 0 for a row that is masked whole. k and v repeated for
    groups of heads are read as groups.

    Before:
    ```mlir
    %s = msamp.matmul %q, %k {transpose_b} : tensor<2x4x32x16xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x32xf32>
    %m = arith.addf %s, %mask : tensor<2x4x32x32xf32>
    %p = msamp.softmax %m : tensor<2x4x32x32xf32> -> tensor<2x4x32x32xf32>
    %o = msamp.matmul %p, %v : tensor<2x4x32x32xf32>, tensor<2x4x32x16xf32> -> tensor<2x4x32x16xf32>
    ```
    After (q, k, v as [batch, tokens, heads, width]):
    ```mlir
    %o, %lse = msamp.attention %q, %k, %v {causal, scale = 1.0 : f64} : ...
    ```
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def FlattenTokens : Pass<"msamp-flatten-tokens", "::mlir::ModuleOp"> {
  let summary = "give pointwise ops and norms between linear layers the layers' rank 2";
  let description = [{
    Reshapes that only split or merge leading dimensions move out of chains linear -> bias -> gelu -> linear and of the
    residual stream, so that what fuses has one shape.

    Before:
    ```mlir
    %0 = msamp.reshape %h : tensor<64x128xf32> -> tensor<2x32x128xf32>
    %1 = msamp.gelu %0 : tensor<2x32x128xf32> -> tensor<2x32x128xf32>
    %2 = msamp.reshape %1 : tensor<2x32x128xf32> -> tensor<64x128xf32>
    ```
    After:
    ```mlir
    %2 = msamp.gelu %h : tensor<64x128xf32> -> tensor<64x128xf32>
    ```
  }];
  let dependentDialects = ["::msamp::MsampDialect"];
}

def TieTwins : Pass<"msamp-tie-twins", "::mlir::ModuleOp"> {
  let summary = "make one parameter of a table and a head that hold the same values";
  let description = [{
    Exporters that fold constants store a tied embedding twice, once transposed. A `table` parameter and a matrix whose
    matmul gives an output, equal in shape (perhaps transposed) and in every value, become one; the other's name goes to
    `twins`. Vectors never tie, nor do matrices in other roles. Without values (random initialisation) nothing ties.

    Before:
    ```mlir
    msamp.parameter @"embed.weight" : tensor<320x64xf32> table {trained = true}
    msamp.parameter @"onnx::MatMul_420" : tensor<64x320xf32> matrix {trained = true}
    ```
    After:
    ```mlir
    msamp.parameter @"embed.weight" : tensor<320x64xf32> table {trained = true,
        twins = [{name = "onnx::MatMul_420", transposed} ]}
    ```
  }];
  let options = [
    ListOption<"assumeEqual", "assume-equal", "std::string",
        "pairs TABLE=HEAD that are known to hold the same values">];
  let dependentDialects = ["::msamp::MsampDialect"];
}

#endif
