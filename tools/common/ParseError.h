// What is wrong with a command line, for all tools.
#ifndef MSAMP_TOOLS_COMMON_PARSEERROR_H
#define MSAMP_TOOLS_COMMON_PARSEERROR_H

#include <CLI/CLI.hpp>

#include <string>

namespace msamp::tools {

// CLI11's message, but what it did not expect in the order in which it was given.
inline std::string messageOf(const CLI::App &app, const CLI::ParseError &error) {
  if (!dynamic_cast<const CLI::ExtrasError *>(&error))
    return error.what();
  return "not expected: " + CLI::detail::join(app.remaining(), " ");
}

} // namespace msamp::tools

#endif
