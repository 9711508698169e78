// Writes all parameters of a plan in FP32 under their ONNX names.
#ifndef MSAMP_RUNTIME_TRAIN_SAVE_WEIGHTS_H
#define MSAMP_RUNTIME_TRAIN_SAVE_WEIGHTS_H

#include "runtime/exec/Executor.h"

#include <string>

namespace msamp::train {

// Throws Error (exit 74) unless a file can be made at `path`; leaves nothing there. Called before the training starts,
// so that hours of work do not end at a wrong path.
void checkCanSave(const std::string &path);

// Every parameter, trained or frozen, and every twin of one in its own layout, committed by rename. Collective: all
// ranks call it, rank 0 writes.
void saveWeights(runtime::Executor &executor, const std::string &path);

} // namespace msamp::train

#endif
