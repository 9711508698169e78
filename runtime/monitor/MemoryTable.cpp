// Formats the memory table.
#include "runtime/monitor/MemoryTable.h"

#include "runtime/core/Error.h"

#include <algorithm>
#include <vector>

namespace msamp::monitor {
using namespace runtime;

static std::string grouped(uint64_t value) {
  std::string digits = std::to_string(value), text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0)
      text += ',';
    text += digits[i];
  }
  return text;
}

std::string memoryTable(std::span<const RoleBytes> ranks) {
  constexpr const char *names[roleCount] = {"weights", "master",      "gradients", "moments",   "scales",
                                            "padding", "activations", "workspace", "constants", "inputs"};
  std::string text = fmt::format("{:<14}", "memory (bytes)");
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    text += fmt::format("{:>18}", fmt::format("rank {}", rank));
  text += "\n";
  std::vector<uint64_t> totals(ranks.size());
  for (size_t role = 0; role < roleCount; ++role) {
    if (std::all_of(ranks.begin(), ranks.end(), [&](const RoleBytes &bytes) { return bytes[role] == 0; }))
      continue;
    text += fmt::format("{:<14}", names[role]);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      text += fmt::format("{:>18}", grouped(ranks[rank][role]));
      totals[rank] += ranks[rank][role];
    }
    text += "\n";
  }
  text += fmt::format("{:<14}", "total");
  for (uint64_t total : totals)
    text += fmt::format("{:>18}", grouped(total));
  return text + "\n";
}

} // namespace msamp::monitor
