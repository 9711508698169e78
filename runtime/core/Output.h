// Standard output, with its failures told: a full disk or a reader that has left.
#ifndef MSAMP_RUNTIME_CORE_OUTPUT_H
#define MSAMP_RUNTIME_CORE_OUTPUT_H

#include "runtime/core/Error.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace msamp::runtime {

// Writes and flushes; error 74 if it cannot.
inline void writeOutput(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  const int reason = errno;
  std::clearerr(stdout);
  failIo("standard output cannot be written: {}", std::strerror(reason));
}

template <class... Args> void printOutput(fmt::format_string<Args...> format, Args &&...args) {
  writeOutput(fmt::format(format, std::forward<Args>(args)...));
}

} // namespace msamp::runtime

#endif
