// The table of storage types by level and class.
#include "passes/partition/StateClasses.h"

namespace msamp::partition {

bool isLevel(std::string_view level) { return level == "fp32" || level == "bf16" || isFp8Level(level); }

int64_t bytesOf(Storage type) {
  switch (type) {
  case Storage::F32: return 4;
  case Storage::BF16:
  case Storage::F16: return 2;
  case Storage::E4M3:
  case Storage::E5M2: return 1;
  case Storage::None: return 0;
  }
  return 0;
}

ClassStorage storageOf(std::string_view level, std::string_view name, std::string_view optimizer, int64_t accumulate) {
  ClassStorage s;
  s.name = std::string(name);
  bool fp32 = level == "fp32";
  if (!isUpdated(name)) {
    s.weight = fp32 || name == "statistics" ? Storage::F32 : Storage::BF16;
    return s;
  }
  // From O2 on the first moment is FP8 and the second FP16: its square root enters the update, so it needs the range.
  bool smallMoments = level == "O2" || level == "O3";
  s.m = smallMoments ? Storage::E4M3 : Storage::F32;
  s.v = smallMoments ? Storage::F16 : Storage::F32;
  if (name == "scaled") {
    s.weightScaled = true;
    s.weight = level == "O3" ? Storage::E4M3 : Storage::F16;
    if (level == "O3") {
      s.master = Storage::F16;
      s.masterScaled = true;
    }
    s.grad = s.wire = Storage::E4M3;
  } else {
    s.weight = s.grad = s.wire = fp32 ? Storage::F32 : Storage::BF16;
    if (!fp32) s.master = Storage::F32;
  }
  // Several micro-batches are summed without rounding in between; the wire keeps the class's type.
  if (accumulate > 1) s.grad = Storage::F32;
  if (optimizer == "sgd") s.v = Storage::None;
  return s;
}

} // namespace msamp::partition
