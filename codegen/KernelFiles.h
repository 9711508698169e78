// The kernels of a plan, compiled for its targets into the files of the plan's directory.
#ifndef MSAMP_CODEGEN_KERNELFILES_H
#define MSAMP_CODEGEN_KERNELFILES_H

#include "codegen/PlanDirectory.h"

#include <filesystem>

namespace msamp::codegen {

// Writes kernels/TARGET.* below `directory` for a target of the plan, adds them to the plan's parts and notes how GPU kernels
// are launched. Throws runtime::Error.
void writeKernels(mlir::ModuleOp module, plan::Plan &plan, plan::Target &target, const PlanOptions &options,
                  const std::filesystem::path &directory);

} // namespace msamp::codegen

#endif
