// How each level stores the training state of a class of parameters: the one table that precision, partition, the
// schedule and the code generator read.
#ifndef MSAMP_PASSES_PARTITION_STATECLASSES_H
#define MSAMP_PASSES_PARTITION_STATECLASSES_H

#include <cstdint>
#include <string>
#include <string_view>

namespace msamp::partition {

enum class Storage { F32, BF16, F16, E4M3, E5M2, None };

struct ClassStorage {
  std::string name;
  Storage weight = Storage::None;
  Storage master = Storage::None;
  Storage grad = Storage::None;
  Storage m = Storage::None;
  Storage v = Storage::None;
  bool weightScaled = false; // stored = value * scale, a scale a parameter
  bool masterScaled = false;
  Storage wire = Storage::None; // of the gradient exchange
};

// Parameters of a class lie in a flat space, each padded to this many elements: the block of a moment's scale.
inline constexpr int64_t kBlock = 128;
inline int64_t padded(int64_t elements) { return (elements + kBlock - 1) / kBlock * kBlock; }

// `level`: fp32, bf16, O1, O2 or O3; `name`: plain, scaled, frozen or statistics; `optimizer`: adamw, adam or sgd
// (momentum only).
ClassStorage storageOf(std::string_view level, std::string_view name, std::string_view optimizer, int64_t accumulate);

// Whether the optimizer updates a class.
inline bool isUpdated(std::string_view name) { return name != "frozen" && name != "statistics"; }
int64_t bytesOf(Storage type);
bool isLevel(std::string_view level);
inline bool isFp8Level(std::string_view level) { return level == "O1" || level == "O2" || level == "O3"; }

} // namespace msamp::partition

#endif
