// Checks of flags' values and the layout of help texts, for all tools that run plans.
#ifndef MSAMP_TOOLS_COMMON_FLAGS_H
#define MSAMP_TOOLS_COMMON_FLAGS_H

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace msamp::tools {

// A finite number of an interval, ends included unless said otherwise. `wanted` completes "X is not ..".
CLI::Validator number(double low, double high, const std::string &wanted, bool openHigh = false);
CLI::Validator integer(uint64_t low, uint64_t high, const std::string &wanted);
CLI::Validator oneOf(const std::vector<std::string> &names);
CLI::Validator notEmpty();

inline CLI::Validator positive() {
  return number(std::numeric_limits<double>::min(), std::numeric_limits<double>::max(), "a number above 0");
}
inline CLI::Validator notNegative() { return number(0, std::numeric_limits<double>::max(), "a number of at least 0"); }

// Breaks a description into lines that fit beside the flags' column.
std::string wrapped(const std::string &text, size_t width = 82);

// Parses; false when the help or the version has been printed. Throws Error (exit 64) that names the flag.
bool parse(CLI::App &app, int argc, char **argv);

} // namespace msamp::tools

#endif
