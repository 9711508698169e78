#include "runtime/device/Device.h"

#include <algorithm>
#include <sched.h>

#include "runtime/core/Modules.h"

namespace msamp::runtime {

std::unique_ptr<Device> makeDevice(const DeviceOptions &options) {
  DeviceOptions chosen = options;
  if (chosen.threads == 0) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    chosen.threads = ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<unsigned>(CPU_COUNT(&cores)) : 1;
    chosen.threads = std::max(1u, chosen.threads / std::max(1u, options.ranksOnMachine));
  }
  using Create = Device *(const DeviceOptions *);
  auto *create = reinterpret_cast<Create *>(moduleSymbol("msamp_device_" + options.kind, "msampCreateDevice"));
  return std::unique_ptr<Device>(create(&chosen));
}

} // namespace msamp::runtime
