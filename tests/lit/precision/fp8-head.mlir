// An FP8 head tied to a table: stored like a table, multiplied as E4M3 by its own site's scale, once for all three GEMMs.
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2 fp8-head" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2 recipe=current fp8-head" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s --check-prefix=CURRENT
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O3 recipe=rowwise fp8-head" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s --check-prefix=ROWS
// RUN: msamp-opt %s --msamp-assign-state-classes="level=O2 fp8-head" 2>&1 | FileCheck %s --check-prefix=NONE

// CHECK: msamp.parameter @wte {{.*}} table {fp8_gemms, state_class = 0
// CHECK-DAG: msamp.site @wte.x activation f8E4M3FN
// CHECK-DAG: msamp.site @wte.w activation f8E4M3FN
// CHECK-DAG: msamp.site @wte.dy activation_grad f8E5M2
// CHECK: msamp.gather %{{.*}} : tensor<48x16xbf16>
// CHECK: %[[X8:.*]] = msamp.quantize %{{.*}}, %[[SX:.*]] : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>
// CHECK: msamp.get @wte : tensor<48x16xbf16>
// CHECK: msamp.record_amax @wte.w
// CHECK: %[[SW:.*]] = msamp.site_scale @wte.w
// CHECK: %[[W8:.*]] = msamp.quantize %{{.*}}, %[[SW]] : tensor<48x16xf32>, tensor<f32> -> tensor<48x16xf8E4M3FN>
// CHECK: msamp.scaled_matmul %{{.*}}, %[[W8]] scales %{{.*}}, %[[SW]] {transpose_b} {{.*}} -> tensor<32x48xbf16>
// The gradient of the logits is E5M2 and has no BF16 form.
// CHECK: %[[D:.*]] = arith.divf {{.*}} : tensor<32x48xf32>
// CHECK: msamp.record_amax @wte.dy
// CHECK: %[[D8:.*]] = msamp.quantize %[[D]], %[[SD:.*]] : {{.*}} -> tensor<32x48xf8E5M2>
// CHECK: msamp.scaled_matmul %[[D8]], %[[W8]] scales %[[SD]], %[[SW]] : {{.*}} -> tensor<32x16xbf16>
// CHECK: msamp.scaled_matmul %[[D8]], %{{.*}} scales %[[SD]], %{{.*}} {transpose_a} {{.*}} -> tensor<48x16xf32>
// The table's gradient is that of the plain class.
// CHECK: arith.truncf {{.*}} : tensor<48x16xf32> to tensor<48x16xbf16>

// CURRENT-NOT: msamp.site
// CURRENT: %[[S:.*]] = msamp.scale_of %{{.*}} f8E4M3FN
// CURRENT: msamp.quantize %{{.*}}, %[[S]] : tensor<32x16xf32>
// CURRENT: msamp.quantize %{{.*}} : tensor<48x16xf32>, tensor<f32> -> tensor<48x16xf8E4M3FN>
// CURRENT: msamp.scaled_matmul {{.*}} -> tensor<32x48xbf16>
// CURRENT: msamp.quantize %{{.*}} -> tensor<32x48xf8E5M2>

// ROWS: msamp.scaled_matmul %{{.*}} {transpose_b} : tensor<32x16xf8E4M3FN>, tensor<48x16xf8E4M3FN>, tensor<32xf32>, tensor<f32> -> tensor<32x48xbf16>
// ROWS-DAG: msamp.quantize %{{.*}} : tensor<32x48xf32>, tensor<32xf32> -> tensor<32x48xf8E5M2>
// ROWS-DAG: msamp.quantize %{{.*}} : tensor<32x48xf32>, tensor<f32> -> tensor<32x48xf8E5M2>
// ROWS: msamp.scaled_matmul {{.*}} : tensor<32x48xf8E5M2>, tensor<48x16xf8E4M3FN>, tensor<32xf32>, tensor<f32> -> tensor<32x16xbf16>

// NONE: warning: the head stays in BF16: the loss comes from no product with a trained parameter
module {
  func.func @step(%x: tensor<16x32xf32> {msamp.name = "x"}) -> (tensor<f32> {msamp.name = "loss"}) {
    %loss = msamp.reduce sum %x dims = [0, 1] : tensor<16x32xf32> -> tensor<f32>
    return %loss : tensor<f32>
  }
}
