// RUN: msamp-opt %s --msamp-lower-to-plan | FileCheck %s

// Views become strides, kernels are shared, results land in outputs, gradients and concatenations.
module attributes {msamp.bounds = {ids = 32 : i64}} {
  msamp.parameter @w : tensor<16x48xf32> matrix {trained = true}
  msamp.parameter @table : tensor<32x16xf32> table {trained = true}
  func.func @micro_step(%ids: tensor<8xi64> {msamp.name = "ids"}) -> (tensor<f32> {msamp.name = "loss"}) {
    %w = msamp.get @w : tensor<16x48xf32>
    %table = msamp.get @table : tensor<32x16xf32>
    %x = msamp.gather %table at %ids axis = 0 : tensor<32x16xf32>, tensor<8xi64> -> tensor<8x16xf32>
    %x1 = msamp.cluster(%x) {
    ^bb0(%a: tensor<8x16xf32>):
      %0 = arith.addf %a, %a : tensor<8x16xf32>
      msamp.yield %0 : tensor<8x16xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %x2 = msamp.cluster(%x1) {
    ^bb0(%b: tensor<8x16xf32>):
      %0 = arith.addf %b, %b : tensor<8x16xf32>
      msamp.yield %0 : tensor<8x16xf32>
    } : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %qkv = msamp.matmul %x2, %w : tensor<8x16xf32>, tensor<16x48xf32> -> tensor<8x48xf32>
    %four = msamp.reshape %qkv : tensor<8x48xf32> -> tensor<2x4x3x16xf32>
    %q0 = msamp.slice %four starts = [0, 0, 0, 0] strides = [1, 1, 1, 1] : tensor<2x4x3x16xf32> -> tensor<2x4x1x16xf32>
    %k0 = msamp.slice %four starts = [0, 0, 1, 0] strides = [1, 1, 1, 1] : tensor<2x4x3x16xf32> -> tensor<2x4x1x16xf32>
    %v0 = msamp.slice %four starts = [0, 0, 2, 0] strides = [1, 1, 1, 1] : tensor<2x4x3x16xf32> -> tensor<2x4x1x16xf32>
    %q = msamp.reshape %q0 : tensor<2x4x1x16xf32> -> tensor<2x4x2x8xf32>
    %k = msamp.reshape %k0 : tensor<2x4x1x16xf32> -> tensor<2x4x2x8xf32>
    %v = msamp.reshape %v0 : tensor<2x4x1x16xf32> -> tensor<2x4x2x8xf32>
    %o, %lse = msamp.attention %q, %k, %v {scale = 0.25 : f64, causal} : tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32> -> tensor<2x4x2x8xf32>, tensor<2x2x4xf32>
    %loss = msamp.cluster(%o) {
    ^bb0(%a: tensor<2x4x2x8xf32>):
      %0 = msamp.reduce sum %a dims = [0, 1, 2, 3] : tensor<2x4x2x8xf32> -> tensor<f32>
      msamp.yield %0 : tensor<f32>
    } : (tensor<2x4x2x8xf32>) -> tensor<f32>
    %dq, %dk, %dv = msamp.attention_grad %o, %q, %k, %v, %o, %lse {scale = 0.25 : f64, causal} : tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x2x4xf32> -> tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>, tensor<2x4x2x8xf32>
    %dq1 = msamp.reshape %dq : tensor<2x4x2x8xf32> -> tensor<2x4x1x16xf32>
    %dk1 = msamp.reshape %dk : tensor<2x4x2x8xf32> -> tensor<2x4x1x16xf32>
    %dv1 = msamp.reshape %dv : tensor<2x4x2x8xf32> -> tensor<2x4x1x16xf32>
    %d4 = msamp.concat %dq1, %dk1, %dv1 dim = 2 : tensor<2x4x1x16xf32>, tensor<2x4x1x16xf32>, tensor<2x4x1x16xf32> -> tensor<2x4x3x16xf32>
    %d = msamp.reshape %d4 : tensor<2x4x3x16xf32> -> tensor<8x48xf32>
    %dw = msamp.matmul %x2, %d {transpose_a} : tensor<8x16xf32>, tensor<8x48xf32> -> tensor<16x48xf32>
    msamp.store_grad @w, %dw : tensor<16x48xf32>
    %dx = msamp.matmul %d, %w {transpose_b} : tensor<8x48xf32>, tensor<16x48xf32> -> tensor<8x16xf32>
    %dt = msamp.transpose %dx perm = [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32>
    %dt1 = msamp.cluster(%dt) {
    ^bb0(%a: tensor<16x8xf32>):
      %0 = arith.mulf %a, %a : tensor<16x8xf32>
      msamp.yield %0 : tensor<16x8xf32>
    } : (tensor<16x8xf32>) -> tensor<16x8xf32>
    %dt2 = msamp.transpose %dt1 perm = [1, 0] : tensor<16x8xf32> -> tensor<8x16xf32>
    %dtable = msamp.scatter_add %dt2 at %ids : tensor<8x16xf32>, tensor<8xi64> -> tensor<32x16xf32>
    msamp.store_grad @table, %dtable : tensor<32x16xf32>
    return %loss : tensor<f32>
  }
}

// CHECK:      module attributes {{.*}}plan.inputs = [{bound = 32 : i64, name = "ids", type = tensor<8xi64>}]
// CHECK:      plan.program @micro_step arena 0 workspace 0 outputs ["loss"]
// CHECK-DAG:  %[[IDS:.*]] = plan.place input "ids" : memref<8xi64>
// CHECK-DAG:  %[[TABLE:.*]] = plan.place weight "table" : memref<32x16xf32>
// CHECK-DAG:  %[[LOSS:.*]] = plan.place output "loss" : memref<f32>
// CHECK-DAG:  %[[GW:.*]] = plan.place grad "w" : memref<16x48xf32>
// CHECK-DAG:  %[[GTABLE:.*]] = plan.place grad "table" : memref<32x16xf32>
// CHECK-DAG:  %[[QKV:.*]] = plan.buffer "matmul" activation : memref<1536xi8>
// CHECK-DAG:  %[[Q:.*]] = plan.view %[[QKV]] at 0 : memref<1536xi8> -> memref<2x4x2x8xf32, strided<[192, 48, 8, 1]>>
// CHECK-DAG:  %[[K:.*]] = plan.view %[[QKV]] at 64 : memref<1536xi8> -> memref<2x4x2x8xf32, strided<[192, 48, 8, 1]>>
// CHECK-DAG:  %[[V:.*]] = plan.view %[[QKV]] at 128 : memref<1536xi8> -> memref<2x4x2x8xf32, strided<[192, 48, 8, 1]>>
// CHECK-DAG:  %[[D:.*]] = plan.buffer "concat" activation : memref<1536xi8>
// CHECK-DAG:  %[[DQ:.*]] = plan.view %[[D]] at 0 : memref<1536xi8> -> memref<2x4x2x8xf32, strided<[192, 48, 8, 1]>>
// CHECK-DAG:  %[[DK:.*]] = plan.view %[[D]] at 64 : memref<1536xi8> -> memref<2x4x2x8xf32, strided<[192, 48, 8, 1]>>
// CHECK-DAG:  %[[DV:.*]] = plan.view %[[D]] at 128 : memref<1536xi8> -> memref<2x4x2x8xf32, strided<[192, 48, 8, 1]>>
// CHECK:      plan.gather(%[[TABLE]], %[[IDS]])
// CHECK-NEXT: plan.launch @kernel0(
// CHECK-NEXT: plan.launch @kernel0(
// CHECK-NEXT: plan.matmul(
// CHECK-NEXT: plan.attention(%[[Q]], %[[K]], %[[V]])
// CHECK-NEXT: plan.launch @kernel1({{.*}}) writes(%[[LOSS]])
// CHECK-NEXT: plan.attention_grad({{.*}}) writes(%[[DQ]], %[[DK]], %[[DV]])
// CHECK-NEXT: plan.matmul({{.*}}) writes(%[[GW]]) {{.*}}transpose_a
// CHECK-NEXT: plan.matmul({{.*}}transpose_b
// A kernel reads row-major memory, so a transposed operand is copied for it.
// CHECK-NEXT: plan.copy({{.*}}memref<16x8xf32, strided<[1, 16]>>
// CHECK-NEXT: plan.launch @kernel2(
// CHECK-NEXT: plan.copy(
// CHECK-NEXT: plan.scatter_add({{.*}}, %[[IDS]]) writes(%[[GTABLE]])
// CHECK:      plan.kernel @kernel0 chunks 1 workspace 0 ops "addf"
