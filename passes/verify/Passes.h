// Passes of the verify phase: creation, registration, and the pipeline that runs them.
#ifndef MSAMP_PASSES_VERIFY_PASSES_H
#define MSAMP_PASSES_VERIFY_PASSES_H

#include "ir/Msamp/Msamp.h"
#include "mlir/Pass/Pass.h"

#include <memory>

namespace msamp {
namespace verify {

#define GEN_PASS_DECL
#include "passes/verify/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/verify/Passes.h.inc"

} // namespace verify
} // namespace msamp
#endif
