// A file of tokens: a flat array of unsigned integers, mapped, never loaded whole.
#ifndef MSAMP_RUNTIME_DATA_TOKENS_H
#define MSAMP_RUNTIME_DATA_TOKENS_H

#include "runtime/core/MappedFile.h"
#include "runtime/plan/PlanIO.h"

#include <cstdint>
#include <string>

namespace msamp::data {

enum class TokenType { U8 = 1, U16 = 2, U32 = 4 }; // the value is the size in bytes

class TokenFile {
public:
  // Error 74 if the file cannot be read, 65 if its size is no multiple of a token's.
  TokenFile(const std::string &path, TokenType type);

  uint64_t size() const { return count; } // in tokens
  const std::string &path() const { return name; }

  // Tokens [begin, begin + n) to `out` as the input's type (i64 or i32). Error 65 naming value, offset, file and bound
  // when one is out of the input's range.
  void copy(const plan::Input &input, uint64_t begin, uint64_t n, void *out) const;

  // Checks the range of all tokens when the file is small enough to read at start-up (64 MiB); bigger ones are checked
  // window by window.
  void scan(const plan::Input &input) const;

private:
  uint64_t token(uint64_t index) const;
  bool couldBeBytes(const plan::Input &input) const;
  [[noreturn]] void failRange(const plan::Input &input, uint64_t index) const;

  std::string name;
  runtime::MappedFile file;
  TokenType type;
  uint64_t count = 0;
};

} // namespace msamp::data

#endif
