// What was measured, as text for people and as JSON.
#ifndef MSAMP_TOOLS_MSAMP_BENCH_REPORT_H
#define MSAMP_TOOLS_MSAMP_BENCH_REPORT_H

#include "tools/msamp-bench/Limits.h"
#include "tools/msamp-bench/Measure.h"

#include <nlohmann/json.hpp>

#include <string>

namespace msamp::bench {

// Everything in one object; tables are arrays of objects.
nlohmann::ordered_json report(runtime::Executor &executor, const std::string &device, const Options &options,
                              const Measurement &measurement, Limits &limits);

// The same as text.
std::string reportText(const nlohmann::ordered_json &report, bool table);

} // namespace msamp::bench

#endif
