// Reading and checking tokens.
#include "runtime/data/Tokens.h"

#include "runtime/core/Error.h"
#include "runtime/data/InputCopy.h"

#include <algorithm>
#include <cstring>

namespace msamp::data {
using namespace runtime;

TokenFile::TokenFile(const std::string &path, TokenType type) : name(path), file(path), type(type) {
  auto width = static_cast<uint64_t>(type);
  if (file.size() % width != 0)
    failData("{}: its size, {} bytes, is no multiple of {}, the size of a u{} token; {}", path, file.size(), width,
             width * 8,
             file.size() % 2 != 0 ? "if each byte is a token, give --data-type u8"
                                  : "--data-type says which type it has");
  count = file.size() / width;
}

uint64_t TokenFile::token(uint64_t index) const {
  const std::byte *data = file.data();
  if (type == TokenType::U8)
    return static_cast<uint8_t>(data[index]);
  if (type == TokenType::U16) {
    uint16_t value;
    std::memcpy(&value, data + index * 2, 2);
    return value;
  }
  uint32_t value;
  std::memcpy(&value, data + index * 4, 4);
  return value;
}

// Whether each byte could be a token of the input, and not of any.
bool TokenFile::couldBeBytes(const plan::Input &input) const {
  auto isToken = [&](std::byte byte) { return static_cast<int64_t>(byte) < input.bound(); };
  return type != TokenType::U8 && input.bound() <= 256 &&
         std::all_of(file.data(), file.data() + file.size(), isToken);
}

void TokenFile::failRange(const plan::Input &input, uint64_t index) const {
  auto width = static_cast<uint64_t>(type);
  failData(
      "{}: token {} at offset {} (bytes; token number {}) of {} is out of range: tokens must be below {}, the size of "
      "the vocabulary{}",
      describe(input), token(index), index * width, index, name, input.bound(),
      couldBeBytes(input)      ? "; if each byte is a token, give --data-type u8"
      : type == TokenType::U16 ? "; is the file u16? --data-type says otherwise"
                               : "");
}

void TokenFile::copy(const plan::Input &input, uint64_t begin, uint64_t n, void *out) const {
  auto bound = input.bound() > 0 ? static_cast<uint64_t>(input.bound()) : UINT64_MAX;
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t value = token(begin + i);
    if (value >= bound)
      failRange(input, begin + i);
    if (static_cast<Type>(input.type()) == Type::I64)
      static_cast<int64_t *>(out)[i] = static_cast<int64_t>(value);
    else
      static_cast<int32_t *>(out)[i] = static_cast<int32_t>(value);
  }
}

void TokenFile::scan(const plan::Input &input) const {
  constexpr uint64_t limit = 64ull << 20;
  auto width = static_cast<uint64_t>(type);
  if (input.bound() <= 0 || file.size() > limit ||
      (width < 4 && static_cast<uint64_t>(input.bound()) >= 1ull << (8 * width)))
    return;
  for (uint64_t i = 0; i < count; ++i)
    if (token(i) >= static_cast<uint64_t>(input.bound()))
      failRange(input, i);
}

} // namespace msamp::data
