#include "runtime/monitor/Trace.h"

#include "runtime/core/Error.h"
#include "runtime/plan/StepTraits.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace msamp::monitor {
using namespace runtime;
using Json = nlohmann::ordered_json;

namespace {

constexpr int programTrack = 1, stepTrack = 2, besideTrack = 3;

Json track(unsigned rank, int number, const char *name) {
  return Json{{"name", "thread_name"}, {"ph", "M"}, {"pid", rank}, {"tid", number}, {"args", {{"name", name}}}};
}

Json span(unsigned rank, int number, std::string name, std::string category, double begin, double end) {
  return Json{{"name", std::move(name)}, {"cat", std::move(category)}, {"ph", "X"}, {"pid", rank}, {"tid", number},
              {"ts", begin * 1e6}, {"dur", std::max(0.0, end - begin) * 1e6}};
}

} // namespace

std::string traceJson(const LoadedPlan &loaded, std::span<const TraceEvent> events, const std::string &device,
                      unsigned rank, unsigned ranks) {
  const plan::Plan &plan = loaded.plan;
  Json all = Json::array();
  all.push_back(Json{{"name", "process_name"}, {"ph", "M"}, {"pid", rank},
                     {"args", {{"name", fmt::format("rank {}: {}", rank, device)}}}});
  all.push_back(track(rank, programTrack, "programs"));
  all.push_back(track(rank, stepTrack, "steps"));
  if (std::any_of(events.begin(), events.end(), [](const TraceEvent &event) { return event.beside; }))
    all.push_back(track(rank, besideTrack, "exchanges beside the steps"));
  for (size_t i = 0; i < events.size();) {
    // A program that runs several times in a row starts again at its first step.
    size_t end = i + 1;
    double last = events[i].end;
    for (; end < events.size() && events[end].program == events[i].program && events[end].step != events[i].step; ++end)
      last = std::max(last, events[end].end);
    all.push_back(span(rank, programTrack, events[i].program->name(), "program", events[i].begin, last));
    i = end;
  }
  for (const TraceEvent &event : events) {
    const plan::Step &step = *event.step;
    std::string name = step.nodes().empty() ? shapeOf(plan, step) : step.nodes(0);
    if (step.nodes_size() > 1)
      name += fmt::format(" +{}", step.nodes_size() - 1);
    if (step.backward())
      name += " (backward)";
    Json entry = span(rank, event.beside ? besideTrack : stepTrack, std::move(name), std::string(nameOf(kindOf(step))), event.begin,
                      event.end);
    const uint64_t bytes = bytesOf(plan, step, ranks);
    Json &args = entry["args"];
    args = Json{{"step", shapeOf(plan, step)}, {"nodes", std::vector<std::string>(step.nodes().begin(), step.nodes().end())},
                {"backward", step.backward()}, {"bytes", bytes}, {"flops", step.flops()}};
    if (step.has_launch())
      args["ops"] = loaded.target().kernels(static_cast<int>(step.launch().kernel())).cluster();
    if (const double seconds = event.end - event.begin; seconds > 0) {
      args["GB/s"] = static_cast<double>(bytes) / seconds / 1e9;
      args["TFLOP/s"] = static_cast<double>(step.flops()) / seconds / 1e12;
    }
    all.push_back(std::move(entry));
  }
  Json trace{{"displayTimeUnit", "ms"}, {"otherData", {{"plan", plan.source()}, {"level", plan.level()}}}};
  trace["traceEvents"] = std::move(all);
  return trace.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void writeTrace(const std::string &path, const std::string &json) {
  std::ofstream file(path, std::ios::binary);
  file << json << std::flush;
  if (!file)
    failIo("--profile {}: cannot be written: {}", path, std::strerror(errno));
}

} // namespace msamp::monitor
