// What one step measured, and the file that keeps it: metrics.jsonl, one JSON object a line.
#ifndef MSAMP_RUNTIME_MONITOR_METRICS_H
#define MSAMP_RUNTIME_MONITOR_METRICS_H

#include <cstdint>
#include <string>

namespace msamp::monitor {

struct StepMetrics {
  uint64_t step = 0; // from 1
  double loss = 0;   // mean over the whole global batch
  double lr = 0;
  double gradNorm = 0; // before clipping
  uint64_t tokens = 0; // of the whole global batch; samples of a model that reads no tokens
  double tokensPerSecond = 0;
  const char *unit = "tok"; // of these two, for people
  double seconds = 0;       // wall time of the step
  bool skipped = false;     // the gradient was not finite: nothing was updated
  std::string scales;       // health of the FP8 scales in few words; empty without FP8
  uint64_t memoryBytes = 0; // resident memory of this rank
};

// One line of JSON, with its line end. What is not finite is null: JSON has no word for it.
std::string toJson(const StepMetrics &metrics);

// Appends lines by one write(2) each, so that a run that is killed leaves whole lines behind.
class MetricsFile {
public:
  // Creates the folder (and its parents) and starts the file anew; one that is there is kept under the next free
  // number, metrics.1.jsonl and so on. Throws Error (exit 74) naming the path.
  explicit MetricsFile(const std::string &folder);
  ~MetricsFile();
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;

  void append(const StepMetrics &metrics);
  // Where an earlier file is now; empty: there was none.
  const std::string &earlier() const { return kept; }

private:
  std::string path, kept;
  int file = -1;
};

} // namespace msamp::monitor

#endif
