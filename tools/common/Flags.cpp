#include "tools/common/Flags.h"

#include "runtime/core/Error.h"
#include "tools/common/ParseError.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

namespace msamp::tools {

CLI::Validator number(double low, double high, const std::string &wanted, bool openHigh) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        char *end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !std::isfinite(value) || value < low || value > high ||
            (openHigh && value == high))
          return fmt::format("{} is not {}", text.empty() ? "an empty text" : text, wanted);
        return {};
      },
      "", "");
}

CLI::Validator integer(uint64_t low, uint64_t high, const std::string &wanted) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        bool digits = !text.empty() && text.size() < 20 &&
                      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
        if (!digits || std::stoull(text) < low || std::stoull(text) > high)
          return fmt::format("{} is not {}", text.empty() ? "an empty text" : text, wanted);
        return {};
      },
      "", "");
}

CLI::Validator oneOf(const std::vector<std::string> &names) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        if (std::find(names.begin(), names.end(), text) != names.end())
          return {};
        return fmt::format("{} is none of {}", text.empty() ? "an empty text" : text, fmt::join(names, ", "));
      },
      "", "");
}

CLI::Validator notEmpty() {
  return CLI::Validator([](std::string &text) { return text.empty() ? "an empty text names no file" : ""; }, "", "");
}

std::string wrapped(const std::string &text, size_t width) {
  std::string result;
  size_t line = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(' ', begin), text.size());
    if (line > 0 && line + 1 + (end - begin) > width) {
      result += '\n';
      line = 0;
    } else if (line > 0) {
      result += ' ';
      ++line;
    }
    result.append(text, begin, end - begin);
    line += end - begin;
    begin = end + 1;
  }
  return result;
}

bool parse(CLI::App &app, int argc, char **argv) {
  for (CLI::Option *option : app.get_options())
    option->description(wrapped(option->get_description()));
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      app.exit(error); // prints the help or the version
      return false;
    }
    runtime::failUsage("{}\n{} --help lists all flags", messageOf(app, error), app.get_name());
  }
}

} // namespace msamp::tools
