// msamp.scale_of in kernels.
#ifndef MSAMP_CODEGEN_KERNEL_SCALEOF_H
#define MSAMP_CODEGEN_KERNEL_SCALEOF_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace msamp::codegen {

// 2^(floor(log2(max(format) / amax)) - margin) within 2^-126 and 2^126; 1 where amax is 0 or not finite. `amax` is an
// FP32 scalar or vector, the format FP8 or F16.
mlir::Value emitScaleOf(mlir::ImplicitLocOpBuilder &b, mlir::Value amax, mlir::Type format, int64_t margin);

} // namespace msamp::codegen

#endif
