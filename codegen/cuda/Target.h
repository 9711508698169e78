// The GPU architectures that kernels are made for.
#ifndef MSAMP_CODEGEN_CUDA_TARGET_H
#define MSAMP_CODEGEN_CUDA_TARGET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace msamp::codegen::cuda {

struct Target {
  std::string name;          // sm_80, sm_90a, sm_100a
  int capability = 90;       // 80, 90, 100
  int multiprocessors = 132; // of the usual board; sizes grids of kernels that combine partial sums
  std::string features;      // of LLVM's NVPTX back end: the PTX version
  bool fp8Conversion = true; // cvt between e4m3x2, e5m2x2 and f16x2, f32
  // Shared memory that a block can have: declared in the module, and asked for by the launch (dynamic).
  int64_t staticShared = 48 << 10, dynamicShared = 227 << 10;

  // Of that, what rows can have: the rest is for the sums of reductions.
  int64_t roomForRows() const { return dynamicShared - (16 << 10); }

  static llvm::ArrayRef<llvm::StringRef> names() {
    static constexpr llvm::StringRef all[] = {"sm_80", "sm_90a", "sm_100a"};
    return all;
  }
  // Nothing if `name` is none of them; "cpu" is none.
  static std::optional<Target> parse(llvm::StringRef name) {
    if (name == "sm_80")
      return Target{"sm_80", 80, 108, "+ptx80", false, 48 << 10, 163 << 10};
    if (name == "sm_90a")
      return Target{"sm_90a", 90, 132, "+ptx87"};
    if (name == "sm_100a")
      return Target{"sm_100a", 100, 148, "+ptx88"};
    return std::nullopt;
  }
};

} // namespace msamp::codegen::cuda

#endif
