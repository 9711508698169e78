// RUN: msamp-opt %s --msamp-assign-arenas --msamp-verify-plan | FileCheck %s

// Buffers whose lifetimes do not meet share bytes; one that a single step touches is workspace; untouched ones go.
// CHECK: plan.program @chain arena 384 workspace 128
plan.program @chain arena 0 workspace 0 outputs ["y"] {
  %x = plan.place input "x" : memref<32xf32>
  %y = plan.place output "y" : memref<32xf32>
  // CHECK: plan.buffer "a" activation at 0 steps [0, 1] : memref<128xi8>
  %a = plan.buffer "a" activation : memref<128xi8>
  // CHECK: plan.buffer "b" activation at 128 steps [1, 2] : memref<128xi8>
  %b = plan.buffer "b" activation : memref<128xi8>
  // CHECK: plan.buffer "c" activation at 0 steps [2, 3] : memref<100xi8>
  %c = plan.buffer "c" activation : memref<100xi8>
  // CHECK-NOT: plan.buffer "unused"
  %unused = plan.buffer "unused" activation : memref<4096xi8>
  // CHECK: plan.buffer "scratch" workspace at 256 steps [1, 1] : memref<128xi8>
  %scratch = plan.buffer "scratch" workspace : memref<128xi8>
  %av = plan.view %a at 0 : memref<128xi8> -> memref<32xf32>
  %bv = plan.view %b at 0 : memref<128xi8> -> memref<32xf32>
  %cv = plan.view %c at 0 : memref<100xi8> -> memref<25xf32>
  %yv = plan.view %y at 0 : memref<32xf32> -> memref<25xf32>
  %bp = plan.view %b at 0 : memref<128xi8> -> memref<25xf32>
  plan.copy(%x) writes(%av) : (memref<32xf32>) -> memref<32xf32>
  plan.copy(%av) writes(%bv) workspace(%scratch : memref<128xi8>) : (memref<32xf32>) -> memref<32xf32>
  plan.copy(%bp) writes(%cv) : (memref<25xf32>) -> memref<25xf32>
  plan.copy(%cv) writes(%yv) : (memref<25xf32>) -> memref<25xf32>
}
