// RUN: msamp-opt %s --split-input-file --verify-diagnostics | FileCheck %s

// CHECK: plan.kernel @k chunks 4 finish workspace 16 ops "addf"
plan.kernel @k chunks 4 finish workspace 16 ops "addf" {
^bb0(%a: tensor<4xf32>):
  %0 = msamp.cluster(%a) {
  ^bb0(%b: tensor<4xf32>):
    %1 = arith.addf %b, %b : tensor<4xf32>
    msamp.yield %1 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
}
// CHECK: plan.program @p arena 64 workspace 16 outputs ["y"]
plan.program @p arena 64 workspace 16 outputs ["y"] {
  %x = plan.place input "x" : memref<4xf32>
  %y = plan.place output "y" : memref<4xf32>
  %w = plan.buffer "scratch" workspace at 0 steps [0, 0] : memref<16xi8>
  // CHECK: plan.launch @k first(%{{.*}}) writes(%{{.*}}) workspace(%{{.*}} : memref<16xi8>) {bytes = 32 : i64} : (memref<4xf32>) -> memref<4xf32>
  plan.launch @k first(%x) writes(%y) workspace(%w : memref<16xi8>) {bytes = 32 : i64} : (memref<4xf32>) -> memref<4xf32>
}

// -----

plan.program @p arena 0 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<4xf32>
  // expected-error @below {{'plan.view' op covers bytes [8, 24) of 16}}
  %v = plan.view %x at 8 : memref<4xf32> -> memref<4xf32>
}

// -----

plan.program @p arena 0 workspace 0 outputs [] {
  // expected-error @below {{'plan.buffer' op has type 'memref<4xf32>', expected bytes (memref<Nxi8>)}}
  %v = plan.buffer "a" activation : memref<4xf32>
}

// -----

plan.program @p arena 0 workspace 0 outputs [] {
  // expected-error @below {{'plan.buffer' op lies at 8, expected a multiple of 64}}
  %v = plan.buffer "a" activation at 8 : memref<4xi8>
}

// -----

// expected-error @below {{'plan.kernel' op holds 0 ops, expected one msamp.cluster}}
plan.kernel @k chunks 1 workspace 0 ops "" {
^bb0(%a: tensor<4xf32>):
}
