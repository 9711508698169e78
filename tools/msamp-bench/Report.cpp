#include "tools/msamp-bench/Report.h"

#include "runtime/core/Error.h"
#include "runtime/monitor/Progress.h"
#include "runtime/plan/StepTraits.h"

#include <algorithm>
#include <tuple>

namespace msamp::bench {
using namespace runtime;
using Json = nlohmann::ordered_json;

namespace {

// The least time that the hardware needs for one of them; 0: no limit known.
double leastSeconds(const KernelTime &kernel, Limits &limits) {
  switch (kernel.kind) {
  case StepKind::Gemm: case StepKind::Convolution:
    return static_cast<double>(kernel.flops) / limits.peak(kernel.operands);
  case StepKind::Attention: return static_cast<double>(kernel.flops) / limits.peak(Type::BF16);
  case StepKind::RowKernel: case StepKind::Optimizer: return limits.copySeconds(kernel.bytes);
  case StepKind::Collective: return 0;
  }
  return 0;
}

struct Sum {
  double seconds = 0, least = 0, bytes = 0, flops = 0;
  unsigned count = 0;
};

Json row(const Sum &sum, double step) {
  Json entry{{"count", sum.count}, {"ms", sum.seconds * 1e3}, {"share_of_step", sum.seconds / step},
             {"bytes", sum.bytes}, {"flops", sum.flops}};
  if (sum.seconds > 0) {
    entry["gb_per_second"] = sum.bytes / sum.seconds / 1e9;
    entry["tflops"] = sum.flops / sum.seconds / 1e12;
    if (sum.least > 0)
      entry["share_of_limit"] = sum.least / sum.seconds;
  }
  return entry;
}

std::string percent(const Json &entry, const char *name) {
  return entry.contains(name) ? fmt::format("{:.1f} %", entry[name].get<double>() * 100) : "";
}

// What a kernel is judged by: bandwidth, or operations.
std::string rate(const Json &entry) {
  const std::string kind = entry["kind"];
  if (kind == "gaps" || !entry.contains("tflops"))
    return "";
  const double tflops = entry["tflops"], bytes = entry["gb_per_second"];
  if (kind == nameOf(StepKind::Gemm) || kind == nameOf(StepKind::Convolution) || kind == nameOf(StepKind::Attention))
    return fmt::format("{:.4g} TFLOP/s", tflops);
  return fmt::format("{:.4g} GB/s", bytes);
}

std::string shortened(const std::string &text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

} // namespace

Json report(Executor &executor, const std::string &device, const Options &options, const Measurement &m,
            Limits &limits) {
  const plan::Plan &plan = executor.plan().plan;
  const unsigned ranks = executor.communicator().size();
  const double median = m.median();
  Sum kinds[stepKindCount];
  Json kernels = Json::array();
  double busy = 0;
  Type narrowest = Type::F32;
  std::vector<KernelTime> sorted = m.kernels;
  std::sort(sorted.begin(), sorted.end(), [](const KernelTime &a, const KernelTime &b) {
    return std::tie(b.seconds, a.shape) < std::tie(a.seconds, b.shape);
  });
  for (const KernelTime &kernel : sorted) {
    const double least = leastSeconds(kernel, limits) * kernel.count;
    const Sum one{kernel.seconds, least, static_cast<double>(kernel.bytes) * kernel.count,
                  static_cast<double>(kernel.flops) * kernel.count, kernel.count};
    Sum &sum = kinds[static_cast<size_t>(kernel.kind)];
    sum.seconds += one.seconds;
    sum.least += one.least;
    sum.bytes += one.bytes;
    sum.flops += one.flops;
    sum.count += one.count;
    busy += kernel.beside ? 0 : one.seconds;
    const bool product = kernel.kind == StepKind::Gemm || kernel.kind == StepKind::Convolution;
    if (product && sizeOf(kernel.operands) < sizeOf(narrowest))
      narrowest = kernel.operands;
    Json entry = row(one, median);
    entry["kind"] = std::string(nameOf(kernel.kind));
    entry["shape"] = kernel.shape;
    entry["what"] = kernel.what;
    entry["us_each"] = kernel.seconds / kernel.count * 1e6;
    kernels.push_back(std::move(entry));
  }
  Json byKind = Json::array();
  for (size_t k = 0; k < stepKindCount; ++k) {
    if (kinds[k].count == 0) // a text model has no convolutions, and need not say so
      continue;
    Json entry = row(kinds[k], median);
    entry["kind"] = std::string(nameOf(static_cast<StepKind>(k)));
    byKind.push_back(std::move(entry));
  }
  // What no step of the plan accounts for: launches, the host, the input's upload.
  const double gaps = median - busy;
  byKind.push_back(Json{{"count", 0}, {"ms", gaps * 1e3}, {"share_of_step", gaps / median}, {"kind", "gaps"}});

  const double tflops = m.flops / median / 1e12, peak = limits.peak(narrowest) / 1e12 * ranks;
  Json all;
  all["plan"] = options.plan;
  all["model"] = plan.source();
  all["level"] = plan.level();
  all["recipe"] = plan.recipe();
  all["optimizer"] = plan.optimizer();
  all["target"] = executor.plan().target().name();
  all["device"] = device;
  all["ranks"] = ranks;
  all["accumulate"] = std::max(1u, plan.accumulate());
  all["warmup"] = options.warmup;
  all["steps"] = options.steps;
  all["unit"] = m.unit; // of the next two
  all["tokens_per_step"] = m.tokens;
  all["tokens_per_second"] = static_cast<double>(m.tokens) / median;
  all["step_ms_median"] = median * 1e3;
  all["step_ms_min"] = *std::min_element(m.seconds.begin(), m.seconds.end()) * 1e3;
  all["step_ms_max"] = *std::max_element(m.seconds.begin(), m.seconds.end()) * 1e3;
  all["model_flops_per_step"] = m.flops;
  all["model_tflops"] = tflops;
  all["peak_tflops"] = peak;
  all["peak_source"] = fmt::format("{}, {}", limits.peakSource(), nameOf(narrowest));
  all["share_of_peak"] = tflops / peak;
  all["peak_bytes"] = m.memory.peak;
  all["predicted_peak_bytes"] = m.memory.predicted;
  all["library_bytes"] = m.memory.libraries;
  all["context_bytes"] = m.memory.context;
  all["loss_first"] = m.losses.front();
  all["loss_last"] = m.losses.back();
  all["grad_norm_last"] = m.gradNorm;
  all["skipped_steps"] = m.skipped;
  all["losses"] = m.losses;
  all["kinds"] = std::move(byKind);
  all["kernels"] = std::move(kernels);
  return all;
}

std::string reportText(const Json &r, bool table) {
  auto number = [&](const char *name) { return r[name].is_number() ? r[name].get<double>() : 0.0; };
  auto mib = [&](const char *name) { return monitor::humanBytes(static_cast<uint64_t>(number(name))); };
  std::string text;
  text += fmt::format("{}: level {}, {}, {} on {} x {}\n", r["model"].get<std::string>(), r["level"].get<std::string>(),
                      r["recipe"].get<std::string>(), r["target"].get<std::string>(), r["ranks"].get<unsigned>(),
                      r["device"].get<std::string>());
  text += fmt::format("step      {:.3f} ms (median of {}, {:.3f} to {:.3f}), {:.0f} {}\n", number("step_ms_median"),
                      r["steps"].get<uint64_t>(), number("step_ms_min"), number("step_ms_max"),
                      number("tokens_per_step"), r["unit"].get<std::string>());
  text += fmt::format("speed     {:.0f} {}/s, {:.4g} model TFLOP/s, {:.1f} % of {:.4g} ({})\n",
                      number("tokens_per_second"), r["unit"].get<std::string>(), number("model_tflops"),
                      number("share_of_peak") * 100, number("peak_tflops"), r["peak_source"].get<std::string>());
  text += fmt::format("memory    {} at the peak, {} predicted ({:+.1f} %)", mib("peak_bytes"), mib("predicted_peak_bytes"),
                      (number("peak_bytes") / number("predicted_peak_bytes") - 1) * 100);
  if (number("library_bytes") + number("context_bytes") > 0)
    text += fmt::format("; beside it {} of libraries, {} of the device's context", mib("library_bytes"), mib("context_bytes"));
  text += fmt::format("\nloss      {:.4f} first, {:.4f} last; |g| {:.4g}, {} steps skipped\n\n", number("loss_first"),
                      number("loss_last"), number("grad_norm_last"), r["skipped_steps"].get<uint64_t>());
  text += fmt::format("{:<13}{:>7}{:>12}{:>10}{:>18}{:>12}\n", "kind", "steps", "ms", "of step", "rate", "of limit");
  for (const Json &kind : r["kinds"])
    if (kind["count"] != 0 || kind["kind"] == "gaps")
      text += fmt::format("{:<13}{:>7}{:>12.3f}{:>10}{:>18}{:>12}\n", kind["kind"].get<std::string>(),
                          kind["count"].get<unsigned>(), kind["ms"].get<double>(), percent(kind, "share_of_step"), rate(kind),
                          percent(kind, "share_of_limit"));
  if (!table)
    return text;
  text += fmt::format("\n{:<64}{:>6}{:>11}{:>10}{:>9}{:>11}{:>18}{:>9}  {}\n", "steps of the plan", "count", "us each", "ms",
                      "of step", "bytes", "rate", "of limit", "what");
  for (const Json &kernel : r["kernels"])
    text += fmt::format("{:<64}{:>6}{:>11.1f}{:>10.3f}{:>9}{:>11}{:>18}{:>9}  {}\n",
                        shortened(kernel["shape"].get<std::string>(), 63), kernel["count"].get<unsigned>(),
                        kernel["us_each"].get<double>(), kernel["ms"].get<double>(), percent(kernel, "share_of_step"),
                        monitor::humanBytes(static_cast<uint64_t>(kernel["bytes"].get<double>() / kernel["count"].get<double>())),
                        rate(kernel), percent(kernel, "share_of_limit"), shortened(kernel["what"].get<std::string>(), 80));
  text += "\nLimits: products and attention, the peak (attention's is BF16's); row kernels and the optimizer, a copy of as many "
          "bytes on this device.\n";
  return text;
}

} // namespace msamp::bench
