// The progress line: redrawn in place on a terminal, a line every so often elsewhere (a log file, CI).
#ifndef MSAMP_RUNTIME_MONITOR_PROGRESS_H
#define MSAMP_RUNTIME_MONITOR_PROGRESS_H

#include "runtime/monitor/Metrics.h"

#include <chrono>

namespace msamp::monitor {

class Progress {
public:
  explicit Progress(uint64_t steps);

  // Shows the metrics of a step when it is time to: always the first and the last; on a terminal up to ten times a
  // second; elsewhere every tenth of the run, and at least every thirty seconds.
  void show(const StepMetrics &metrics);

  // Ends a line that is being redrawn, so that what is printed next starts on a fresh one.
  void finish();

private:
  using Clock = std::chrono::steady_clock;

  uint64_t steps;
  bool terminal;
  bool open = false;
  bool shown = false;
  uint64_t lastStep = 0;
  uint64_t skipped = 0;
  Clock::time_point started, last;
};

// 1234567 -> "1.23 M"; for rates and counts. 1610612736 -> "1.50 GiB" for bytes.
std::string humanCount(double value);
std::string humanBytes(uint64_t bytes);

} // namespace msamp::monitor

#endif
