// The frontend's exception: a message for the user and the exit code of the tool.
#ifndef MSAMP_FRONTEND_ERROR_H
#define MSAMP_FRONTEND_ERROR_H

#include <stdexcept>
#include <string>

namespace msamp::frontend {

// Of a node: what it says contradicts itself or its operands.
class Invalid : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

// Exit codes as in sysexits.h.
constexpr int kUsage = 64, kBadData = 65, kInternal = 70, kIo = 74;

class Error : public std::runtime_error {
public:
  Error(int exitCode, const std::string &message) : std::runtime_error(message), exitCode(exitCode) {}
  int exitCode;
};

} // namespace msamp::frontend

#endif
