// Element types and memory roles, with the numbers of plan.proto, for code that does not link protobuf.
#ifndef MSAMP_RUNTIME_CORE_TYPES_H
#define MSAMP_RUNTIME_CORE_TYPES_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msamp::runtime {

enum class Type : uint8_t { F32 = 0, BF16 = 1, F16 = 2, E4M3 = 3, E5M2 = 4, I64 = 5, I32 = 6, I8 = 7, Bool = 8, U8 = 9,
  None = 10 };

constexpr size_t sizeOf(Type type) {
  switch (type) {
  case Type::F32: case Type::I32: return 4;
  case Type::BF16: case Type::F16: return 2;
  case Type::I64: return 8;
  case Type::None: return 0;
  default: return 1;
  }
}

constexpr std::string_view nameOf(Type type) {
  constexpr std::array<std::string_view, 11> names = {"f32", "bf16", "f16", "e4m3", "e5m2", "i64", "i32", "i8", "bool",
      "u8", "none"};
  auto index = static_cast<size_t>(type);
  return index < names.size() ? names[index] : "unknown";
}

constexpr bool isFp8(Type type) { return type == Type::E4M3 || type == Type::E5M2; }
// Whether moments of this type are kept times a scale, one a block.
constexpr bool isBlockScaled(Type type) { return isFp8(type) || type == Type::F16; }
constexpr bool isFloat(Type type) { return static_cast<int>(type) <= 4; }

// What a byte is for: the rows of the memory table.
enum class Role : uint8_t { Weights = 0, Master = 1, Gradients = 2, Moments = 3, Scales = 4, Padding = 5, Activations = 6,
  Workspace = 7, Constants = 8, Inputs = 9 };
inline constexpr size_t roleCount = 10;
// Bytes by role, indexed by Role.
using RoleBytes = std::array<uint64_t, roleCount>;

// Values of a state array that share a scale, and the unit in which gradients are sharded.
inline constexpr int64_t blockSize = 128;

} // namespace msamp::runtime

#endif
