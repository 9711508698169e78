// The runtime's exception: a message for people and the exit code that goes with it.
#ifndef MSAMP_RUNTIME_CORE_ERROR_H
#define MSAMP_RUNTIME_CORE_ERROR_H

#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY 1
#endif
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace msamp::runtime {

// As in sysexits.h.
enum class Exit : int { Usage = 64, Data = 65, Internal = 70, Io = 74, TryAgain = 75 };

// Header-only, so that it can be thrown in a module and caught in the program that loaded it.
class Error : public std::runtime_error {
public:
  Error(Exit exit, const std::string &message) : std::runtime_error(message), exit_(exit) {}
  Exit exit() const { return exit_; }
  int exitCode() const { return static_cast<int>(exit_); }

private:
  Exit exit_;
};

template <class... Args>
[[noreturn]] void fail(Exit exit, fmt::format_string<Args...> format, Args &&...args) {
  throw Error(exit, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args> [[noreturn]] void failUsage(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(Exit::Usage, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args> [[noreturn]] void failData(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(Exit::Data, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args> [[noreturn]] void failInternal(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(Exit::Internal, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args> [[noreturn]] void failIo(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(Exit::Io, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args> [[noreturn]] void failTryAgain(fmt::format_string<Args...> format, Args &&...args) {
  throw Error(Exit::TryAgain, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace msamp::runtime

#endif
