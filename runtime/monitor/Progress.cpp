// How the progress line looks and when it is drawn.
#include "runtime/monitor/Progress.h"

#include "runtime/core/Output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>

namespace msamp::monitor {

std::string humanCount(double value) {
  const char *units[] = {"", " k", " M", " G", " T"};
  int unit = 0;
  while (std::fabs(value) >= 1000 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f}{}", value, unit == 0 || value >= 100 ? 0 : 1, units[unit]);
}

std::string humanBytes(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 || value >= 100 ? 0 : 1, units[unit]);
}

static std::string clockTime(double seconds) {
  auto whole = static_cast<uint64_t>(std::max(0.0, seconds));
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(uint64_t steps)
    : steps(steps), terminal(isatty(STDOUT_FILENO) == 1), started(Clock::now()), last(started) {}

void Progress::show(const StepMetrics &metrics) {
  auto now = Clock::now();
  skipped += metrics.skipped;
  double since = std::chrono::duration<double>(now - last).count();
  bool due = !shown || metrics.step == steps;
  if (terminal)
    due = due || since >= 0.1;
  else
    due = due || since >= 30 || metrics.step * 10 / steps != lastStep * 10 / steps;
  lastStep = metrics.step;
  if (!due)
    return;
  shown = true;
  last = now;

  double elapsed = std::chrono::duration<double>(now - started).count();
  double left = elapsed / static_cast<double>(metrics.step) * static_cast<double>(steps - metrics.step);
  std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}  lr {:.2e}  |g| {:.3f}  {} {}/s  {}", metrics.step,
                                 std::to_string(steps).size(), steps, metrics.loss, metrics.lr, metrics.gradNorm,
                                 humanCount(metrics.tokensPerSecond), metrics.unit, humanBytes(metrics.memoryBytes));
  if (!metrics.scales.empty())
    line += "  scales " + metrics.scales;
  if (skipped > 0)
    line += fmt::format("  {} skipped so far", skipped);
  line += metrics.step == steps ? "  " + clockTime(elapsed) : "  left " + clockTime(left);
  if (terminal)
    runtime::printOutput("\r\x1b[K{}", line);
  else
    runtime::printOutput("{}\n", line);
  open = terminal;
}

void Progress::finish() {
  if (open)
    runtime::printOutput("\n");
  open = false;
}

} // namespace msamp::monitor
