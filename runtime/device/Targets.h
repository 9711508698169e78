// Which target of a plan a GPU runs.
#ifndef MSAMP_RUNTIME_DEVICE_TARGETS_H
#define MSAMP_RUNTIME_DEVICE_TARGETS_H

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace msamp::runtime {

// Index of the target for a GPU of a compute capability (90: 9.0): that of its own architecture, first the one that may use all
// of it (sm_90a); else sm_80, whose PTX every newer GPU takes.
inline std::optional<size_t> targetForGpu(std::span<const std::string> targets, int capability) {
  const std::string own = "sm_" + std::to_string(capability);
  for (const std::string &name : {own + "a", own, std::string("sm_80")})
    if (auto found = std::find(targets.begin(), targets.end(), name); found != targets.end())
      return static_cast<size_t>(found - targets.begin());
  return std::nullopt;
}

// What `msampc --target` takes for a plan that has those targets and one more.
inline std::string targetsWith(std::span<const std::string> targets, const std::string &added) {
  std::string list;
  for (const std::string &name : targets)
    list += name + ",";
  return list + added;
}

} // namespace msamp::runtime

#endif
