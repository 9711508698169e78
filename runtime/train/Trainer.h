// The training loop of one rank.
#ifndef MSAMP_RUNTIME_TRAIN_TRAINER_H
#define MSAMP_RUNTIME_TRAIN_TRAINER_H

#include "runtime/data/Loader.h"
#include "runtime/exec/Executor.h"
#include "runtime/train/Schedule.h"

#include <cstdint>
#include <string>

namespace msamp::train {

struct TrainOptions {
  Schedule schedule;     // its `steps` is the length of the run
  runtime::Hyper hyper;  // lr is set from the schedule
  std::string logFolder; // empty: no metrics.jsonl
  std::string saveFile;  // empty: weights are not kept
  std::string profileFile; // trace of a step after the first ones; empty: none
};

struct TrainResult {
  uint64_t steps = 0;   // made
  uint64_t skipped = 0; // of these: nothing was updated, as a gradient was not finite
  uint64_t lossless = 0; // of these: the loss was exactly 0
  int signal = 0;        // that ended the run before its time; 0: none
};

// Trains from the executor's current state. Collective. Rank 0 shows progress, keeps metrics and writes the weights.
TrainResult train(runtime::Executor &executor, const data::Loader &loader, const TrainOptions &options);

} // namespace msamp::train

#endif
