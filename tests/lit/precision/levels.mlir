// What fp32 and bf16 leave and change, and gradients that accumulate.
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=fp32" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s --check-prefix=FP32
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=bf16" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s --check-prefix=BF16
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2 accumulate=4" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s --check-prefix=MANY

// FP32-NOT: {{bf16|f16|f8}}>
// BF16-NOT: {{f8|quantize}}
// BF16: msamp.gather {{.*}} -> tensor<32x16xbf16>
// BF16: msamp.matmul {{.*}} : tensor<32x16xbf16>, tensor<16x64xbf16> -> tensor<32x64xbf16>
// A product that is only a gradient is written in the gradient's type.
// BF16: msamp.matmul {{.*}} {transpose_a} {{.*}} -> tensor<64x16xbf16>
// Statistics stay FP32.
// BF16: msamp.broadcast {{.*}} dims = [0] : tensor<32xf32>
// MANY: func.func @step{{.*}}tensor<16x64xf32> {msamp.grad = @up.weight}
// MANY-NOT: .dw
