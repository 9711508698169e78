// RUN: msamp-opt %s --msamp-verify-plan --split-input-file --verify-diagnostics

plan.program @overlap arena 192 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<128xi8>
  %a = plan.buffer "a" activation at 0 steps [0, 1] : memref<128xi8>
  // expected-error @below {{'plan.buffer' op shares bytes with buffer at 0 while both live}}
  %b = plan.buffer "b" activation at 64 steps [1, 1] : memref<128xi8>
  plan.copy(%x) writes(%a) : (memref<128xi8>) -> memref<128xi8>
  plan.copy(%a) writes(%b) : (memref<128xi8>) -> memref<128xi8>
}

// -----

plan.program @outside arena 64 workspace 0 outputs [] {
  // expected-error @below {{'plan.buffer' op ends at byte 128 of an arena of 64}}
  %a = plan.buffer "a" activation at 0 steps [0, 0] : memref<128xi8>
}

// -----

plan.program @undefined arena 128 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<64xi8>
  %y = plan.place output "y" : memref<128xi8>
  %a = plan.buffer "a" activation at 0 steps [0, 1] : memref<128xi8>
  %half = plan.view %a at 0 : memref<128xi8> -> memref<64xi8>
  plan.copy(%x) writes(%half) : (memref<64xi8>) -> memref<64xi8>
  // expected-error @below {{step 1 reads bytes [0, 128) of buffer a that no step before it has written}}
  plan.copy(%a) writes(%y) : (memref<128xi8>) -> memref<128xi8>
}

// -----

plan.program @only_first arena 128 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<128xi8>
  %y = plan.place output "y" : memref<128xi8>
  %a = plan.buffer "a" activation at 0 steps [0, 1] : memref<128xi8>
  plan.copy first(%x) writes(%a) : (memref<128xi8>) -> memref<128xi8>
  // expected-error @below {{step 1 reads bytes [0, 128) of buffer a that no step before it has written}}
  plan.copy(%a) writes(%y) : (memref<128xi8>) -> memref<128xi8>
}

// -----

plan.program @dead arena 128 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<128xi8>
  %y = plan.place output "y" : memref<128xi8>
  %a = plan.buffer "a" activation at 0 steps [0, 0] : memref<128xi8>
  plan.copy(%x) writes(%a) : (memref<128xi8>) -> memref<128xi8>
  // expected-error @below {{step 1 touches a buffer that lives from step 0 to 0}}
  plan.copy(%a) writes(%y) : (memref<128xi8>) -> memref<128xi8>
}

// -----

plan.program @weights arena 0 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<128xf32>
  %w = plan.place weight "w" : memref<128xf32>
  // expected-error @below {{step 0 writes to weight "w"}}
  plan.copy(%x) writes(%w) : (memref<128xf32>) -> memref<128xf32>
}

// -----

// expected-error @below {{a function is left after schedule; every one must be a plan.program}}
module {
  func.func @f() { return }
}

// -----

// Of weights, running statistics alone are written.
msamp.parameter @mean : tensor<128xf32> mean {trained = false}
plan.program @micro_step arena 0 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<128xf32>
  %w = plan.place weight "mean" : memref<128xf32>
  plan.copy(%x) writes(%w) : (memref<128xf32>) -> memref<128xf32>
}

// -----

// By the micro-step, which reads the old value before that.
msamp.parameter @mean : tensor<128xf32> mean {trained = false}
plan.program @eval arena 0 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<128xf32>
  %w = plan.place weight "mean" : memref<128xf32>
  // expected-error @below {{step 0 writes to weight "mean"}}
  plan.copy(%x) writes(%w) : (memref<128xf32>) -> memref<128xf32>
}

// -----

msamp.parameter @mean : tensor<128xf32> mean {trained = false}
plan.program @micro_step arena 0 workspace 0 outputs [] {
  %x = plan.place input "x" : memref<128xf32>
  %y = plan.place output "y" : memref<128xf32>
  %w = plan.place weight "mean" : memref<128xf32>
  plan.copy(%x) writes(%w) : (memref<128xf32>) -> memref<128xf32>
  // expected-error @below {{step 1 reads "mean", which has its next value already}}
  plan.copy(%w) writes(%y) : (memref<128xf32>) -> memref<128xf32>
}
