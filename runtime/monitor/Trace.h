// A step of training as a trace in Chrome's JSON format, which Perfetto and chrome://tracing open.
#ifndef MSAMP_RUNTIME_MONITOR_TRACE_H
#define MSAMP_RUNTIME_MONITOR_TRACE_H

#include "runtime/plan/PlanIO.h"

#include <span>
#include <string>

namespace msamp::monitor {

// When a step ran, in seconds from the beginning of the trace.
struct TraceEvent {
  const plan::Program *program;
  const plan::Step *step;
  double begin, end;
  bool beside = false; // the steps behind it went on meanwhile
};

// Tracks: programs, their steps, and what ran beside those; with ONNX nodes, bytes and operations. `device` names the process.
std::string traceJson(const runtime::LoadedPlan &loaded, std::span<const TraceEvent> events, const std::string &device,
                      unsigned rank, unsigned ranks);

// Writes it; error 74 naming the file if it cannot.
void writeTrace(const std::string &path, const std::string &json);

} // namespace msamp::monitor

#endif
