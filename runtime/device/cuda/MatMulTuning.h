// The algorithms found for products, by shape and machine, in memory and in a file that outlives the process.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_MATMULTUNING_H
#define MSAMP_RUNTIME_DEVICE_CUDA_MATMULTUNING_H

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runtime/device/cuda/CublasLt.h"

namespace msamp::runtime::cuda {

class MatMulTuning {
public:
  // `machine` names what algorithms depend on: device, driver, library. An empty file keeps all in memory. A file that
  // cannot be read counts as empty.
  MatMulTuning(std::filesystem::path file, std::string machine);

  struct Choice {
    cublasLtMatmulAlgo_t algorithm;
    uint64_t workspace = 0;
    double microseconds = 0; // when it was tuned
  };
  std::optional<Choice> find(const std::string &key) const;
  // Also writes the file, by rename; a file that cannot be written is left alone. Returns the choice that counts from now on:
  // where another process, such as a rank beside this one, has written one meanwhile, that one, so that all compute the same
  // bits, and a later run of the plan does. `anew`: the one that is there does not do.
  Choice add(const std::string &key, const Choice &choice, bool anew);

  // matmul-tuning.json in the folder; where that cannot be written, in XDG_CACHE_HOME/msamp or HOME/.cache/msamp; empty without
  // any.
  static std::filesystem::path fileIn(const std::filesystem::path &folder);

private:
  std::filesystem::path file_;
  std::string machine_;
  std::map<std::string, Choice> choices_;
};

} // namespace msamp::runtime::cuda

#endif
