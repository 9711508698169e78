// Evaluates Msamp, arith and math ops on small tensors, one element at a time in double precision (rounded to FP32
// after each op), as an independent reference for generated kernels.
#ifndef MSAMP_TESTS_UNIT_CODEGEN_INTERPRETER_H
#define MSAMP_TESTS_UNIT_CODEGEN_INTERPRETER_H

#include "ir/Msamp/Msamp.h"

#include <map>
#include <vector>

namespace msamp::test {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data;
  int64_t size() const { return static_cast<int64_t>(data.size()); }
};

// Runs a function whose body holds pointwise and structural ops only.
std::vector<Tensor> interpret(mlir::func::FuncOp func, const std::vector<Tensor> &arguments);

// Nearest even to 3 (E4M3) or 2 (E5M2) bits of mantissa with saturation; the value, not the code.
double roundToFp8(double x, bool e4m3);

} // namespace msamp::test

#endif
