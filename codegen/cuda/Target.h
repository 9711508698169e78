// The GPU architectures that kernels are made for.
#ifndef MSAMP_CODEGEN_CUDA_TARGET_H
#define MSAMP_CODEGEN_CUDA_TARGET_H

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace msamp::codegen::cuda {

struct Target {
  std::string name;          // sm_80, sm_90a, sm_100a
  int capability = 90;       // 80, 90, 100
  int multiprocessors = 132; // of the usual board; sizes grids of kernels that combine partial sums

  static std::optional<Target> parse(llvm::StringRef name) {
    if (name == "sm_80")
      return Target{"sm_80", 80, 108};
    if (name == "sm_90a")
      return Target{"sm_90a", 90, 132};
    if (name == "sm_100a")
      return Target{"sm_100a", 100, 148};
    return std::nullopt;
  }
};

} // namespace msamp::codegen::cuda

#endif
