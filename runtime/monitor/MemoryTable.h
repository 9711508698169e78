// The table of bytes by role and rank.
#ifndef MSAMP_RUNTIME_MONITOR_MEMORY_TABLE_H
#define MSAMP_RUNTIME_MONITOR_MEMORY_TABLE_H

#include "runtime/core/Types.h"

#include <span>
#include <string>

namespace msamp::monitor {

// A row a role that has bytes, a column a rank, and their totals, in bytes.
std::string memoryTable(std::span<const runtime::RoleBytes> ranks);

} // namespace msamp::monitor

#endif
