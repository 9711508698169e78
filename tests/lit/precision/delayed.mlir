// Delayed scaling at O2: FP16 weights quantised where they are used, one quantisation a tensor, a site a tensor.
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2" --msamp-quantize-linears --msamp-convert-gradients --msamp-round-activations --msamp-verify-phase="phase=precision" | FileCheck %s
// RUN: msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2 margins=2,0,1" --msamp-quantize-linears --msamp-convert-gradients | FileCheck %s --check-prefix=MARGIN
// RUN: not msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2 margins=2,0" 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not msamp-opt %S/Inputs/mlp.mlir --msamp-assign-state-classes="level=O2 margins=2,0,9" 2>&1 | FileCheck %s --check-prefix=RANGE

// MARGIN: msamp.site @up.weight.x activation f8E4M3FN margin 2
// MARGIN: msamp.site @up.weight.dy activation_grad f8E5M2{{$}}
// MARGIN: msamp.site @up.weight.dw weight_grad f8E4M3FN margin 1
// COUNT: error: margins are 2 numbers instead of one a kind of site (3)
// RANGE: error: a margin is outside 0 to 8

// CHECK: msamp.site @up.weight.x activation f8E4M3FN
// CHECK: msamp.site @up.weight.dy activation_grad f8E5M2
// CHECK: msamp.site @up.weight.dw weight_grad f8E4M3FN
// CHECK-LABEL: func.func @step

// The norm's result goes to FP8 from FP32: it is in memory in no other type.
// CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = msamp.layer_norm %{{.*}} -> tensor<32x16xf32>
// CHECK: %[[ABS:.*]] = math.absf %[[N]]
// CHECK: %[[AMAX:.*]] = msamp.reduce max %[[ABS]] dims = [0, 1]
// CHECK: msamp.record_amax @up.weight.x, %[[AMAX]]
// CHECK: %[[SX:.*]] = msamp.site_scale @up.weight.x
// CHECK: %[[X8:.*]] = msamp.quantize %[[N]], %[[SX]] : tensor<32x16xf32>, tensor<f32> -> tensor<32x16xf8E4M3FN>

// CHECK: %[[S:.*]] = msamp.get_scale @up.weight
// CHECK: %[[W16:.*]] = msamp.get @up.weight : tensor<16x64xf16>
// CHECK: %[[W32:.*]] = arith.extf %[[W16]]
// CHECK: %[[SB:.*]] = msamp.broadcast %[[S]] dims = []
// CHECK: %[[W:.*]] = arith.divf %[[W32]], %[[SB]]
// CHECK: %[[WA:.*]] = msamp.get_amax @up.weight
// CHECK: %[[SW:.*]] = msamp.scale_of %[[WA]] f8E4M3FN
// CHECK: %[[W8:.*]] = msamp.quantize %[[W]], %[[SW]] : tensor<16x64xf32>
// CHECK: msamp.scaled_matmul %[[X8]], %[[W8]] scales %[[SX]], %[[SW]] {{.*}} -> tensor<32x64xbf16>

// The head is BF16, and so is what feeds it.
// CHECK: msamp.matmul %{{.*}} {transpose_b} : tensor<32x16xbf16>, tensor<48x16xbf16> -> tensor<32x48xbf16>
// CHECK: msamp.cross_entropy {{.*}} : tensor<32x48xf32>

// Backward of up: one E5M2 tensor for both GEMMs, the weight quantised again, x8 as the forward made it.
// CHECK: msamp.gelu_grad
// CHECK: msamp.record_amax @up.weight.dy
// CHECK: %[[SDY:.*]] = msamp.site_scale @up.weight.dy
// CHECK: %[[DY8:.*]] = msamp.quantize %{{.*}}, %[[SDY]] : tensor<32x64xf32>, tensor<f32> -> tensor<32x64xf8E5M2>
// CHECK: %[[W8B:.*]] = msamp.quantize %{{.*}} {msamp.rebuilt}
// CHECK: msamp.scaled_matmul %[[DY8]], %[[W8B]] scales {{.*}} {transpose_b} {{.*}} -> tensor<32x16xbf16>
// CHECK: %[[DW:.*]] = msamp.scaled_matmul %[[X8]], %[[DY8]] scales %[[SX]], %[[SDY]] {transpose_a} {{.*}} -> tensor<16x64xf32>
// CHECK: msamp.record_amax @up.weight.dw
// CHECK: msamp.quantize %[[DW]], %{{.*}} -> tensor<16x64xf8E4M3FN>

// The tied table's gradient is summed in FP32 and rounded once.
// CHECK: msamp.scatter_add {{.*}} : tensor<32x16xbf16>, tensor<32xi64> -> tensor<48x16xf32>
// CHECK: arith.addf {{.*}} : tensor<48x16xf32>
// CHECK: arith.truncf {{.*}} : tensor<48x16xf32> to tensor<48x16xbf16>
