// Compares a plan's loss, outputs and gradients with a reference: what `msamp-run --check` does.
#ifndef MSAMP_RUNTIME_TRAIN_CHECK_H
#define MSAMP_RUNTIME_TRAIN_CHECK_H

#include "runtime/exec/Executor.h"

#include <optional>
#include <string>

namespace msamp::train {

struct CheckOptions {
  std::string reference;      // safetensors with in.*, out.* and grad.*
  std::optional<double> rtol; // instead of the derived tolerances, for everything
};

// Runs one step without update on the reference's inputs (with delayed scales: after calibration steps until they are
// stable) and prints a table of relative errors, worst first. Returns whether all are within tolerance. One rank.
// Throws Error 65 when the reference does not fit the plan.
bool check(runtime::Executor &executor, const CheckOptions &options);

} // namespace msamp::train

#endif
