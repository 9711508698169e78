// Calibration, one step, and the table.
#include "runtime/train/Check.h"

#include "runtime/core/Error.h"
#include "runtime/core/Output.h"
#include "runtime/core/Safetensors.h"
#include "runtime/data/InputCopy.h"
#include "runtime/train/Tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace msamp::train {
using namespace runtime;

namespace {
struct Row {
  std::string name;
  double error = 0; // relative
  double norm = 0;  // of the reference
  double bound = 0;
  std::string note;
  bool passes() const { return error <= bound; } // false for NaN
};

double normOf(const std::vector<float> &values) {
  double sum = 0;
  for (float value : values)
    sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// |values - reference|; infinite when the lengths differ or a value is not finite.
double distance(const std::vector<float> &values, const std::vector<float> &reference) {
  if (values.size() != reference.size())
    return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    double difference = static_cast<double>(values[i]) - reference[i];
    sum += difference * difference;
  }
  return std::isfinite(sum) ? std::sqrt(sum) : std::numeric_limits<double>::infinity();
}
} // namespace

// Fills the inputs from in.* (labels: in.labels, whatever the plan calls them).
static void fillInputs(Executor &executor, const std::shared_ptr<SafetensorsReader> &reference) {
  const plan::Plan &plan = executor.plan().plan;
  for (int i = 0; i < plan.inputs_size(); ++i) {
    const plan::Input &input = plan.inputs(i);
    std::string name = "in." + (input.is_labels() && !reference->find("in." + input.name()) ? "labels" : input.name());
    if (!reference->find(name))
      failData("{}: has no tensor \"{}\" for {}", reference->path().string(), name, data::describe(input));
    data::Array array = data::fromSafetensors(reference, name);
    data::checkType(input, array);
    if (array.shape != data::shapeOf(input))
      failData("{}: expected shape {}, found {} in {}; compile the plan for the reference's sizes (--dim)",
               data::describe(input), data::shapeText(data::shapeOf(input)), data::shapeText(array.shape), array.where);
    data::copyElements(input, array, 0, array.elements(), executor.inputHost(static_cast<unsigned>(i)));
  }
}

static void runStep(Executor &executor, const std::shared_ptr<SafetensorsReader> &reference) {
  unsigned count = std::max(1u, executor.plan().plan.accumulate());
  for (unsigned i = 0; i < count; ++i) {
    fillInputs(executor, reference);
    executor.microStep(i, count);
  }
}

// Runs steps without update until no scale moves; a history of h steps is surely full of the same maxima after h steps,
// and gradients settle one layer a step at worst.
static void calibrate(Executor &executor, const std::shared_ptr<SafetensorsReader> &reference) {
  const plan::Plan &plan = executor.plan().plan;
  unsigned limit = 2 * plan.history() + static_cast<unsigned>(plan.sites_size()) + 2, steps = 0;
  bool moved = true;
  while (moved && steps < limit) {
    runStep(executor, reference);
    moved = executor.calibrateOnly();
    ++steps;
  }
  printOutput("calibrated {} FP8 scales in {} step{} without update{}\n", plan.sites_size(), steps,
             steps == 1 ? "" : "s", moved ? "; they have not settled" : "");
}

static void addGradients(Executor &executor, const SafetensorsReader &reference, double bound, std::vector<Row> &rows) {
  const plan::Plan &plan = executor.plan().plan;
  std::vector<std::pair<std::string, std::vector<float>>> wanted;
  double total = 0;
  for (const auto &[name, view] : reference.tensors())
    if (name.starts_with("grad.")) {
      wanted.emplace_back(name.substr(5), reference.readFloats(name));
      double norm = normOf(wanted.back().second);
      total += norm * norm;
    }
  total = std::sqrt(total);

  auto stateOf = [&](const std::string &name) -> const char * {
    for (const plan::Parameter &parameter : plan.parameters()) {
      bool named = parameter.name() == name;
      for (const plan::Twin &twin : parameter.twins())
        named |= twin.name() == name;
      if (named && parameter.trained())
        return nullptr;
      if (named)
        return isStatistic(parameter) ? "a running statistic" : "frozen in the plan";
    }
    return "missing from the plan";
  };
  float mean = 1.0f / static_cast<float>(std::max(1u, plan.accumulate()));
  std::vector<float> values;
  for (auto &[name, expected] : wanted) {
    Row row{"grad." + name, std::numeric_limits<double>::infinity(), normOf(expected), bound, ""};
    if (const char *why = stateOf(name)) {
      row.note = why;
    } else {
      executor.readGradient(name, values);
      for (float &value : values)
        value *= mean;
      // A gradient that is zero in exact arithmetic (a key bias) is rounding noise: its own norm says nothing.
      bool tiny = row.norm < 1e-6 * total;
      row.error = distance(values, expected) / std::max(tiny ? total : row.norm, 1e-30);
      if (tiny)
        row.note = "measured against the norm of all gradients";
      if (values.size() != expected.size())
        row.note = fmt::format("{} values, the reference has {}", values.size(), expected.size());
    }
    rows.push_back(std::move(row));
  }
}

bool check(Executor &executor, const CheckOptions &options) {
  const plan::Plan &plan = executor.plan().plan;
  auto reference = std::make_shared<SafetensorsReader>(options.reference);
  Tolerances bounds = tolerancesOf(plan, executor.plan().target());
  if (options.rtol)
    bounds = {*options.rtol, *options.rtol, *options.rtol, "--rtol"};

  if (plan.sites_size() > 0)
    calibrate(executor, reference);
  std::vector<Row> rows;
  fillInputs(executor, reference);
  executor.eval();
  if (reference->find("out.loss")) {
    const std::vector<float> stored = reference->readFloats("out.loss");
    if (stored.size() != 1)
      failData("{}: out.loss has {} values; a loss is one", options.reference, stored.size());
    double expected = stored[0], loss = executor.lastLoss();
    Row row{"out.loss", std::fabs(loss - expected) / std::max(std::fabs(expected), 1e-30), std::fabs(expected),
            bounds.loss, fmt::format("{:.7g}, reference {:.7g}", loss, expected)};
    rows.push_back(std::move(row));
  }
  for (const auto &[name, view] : reference->tensors()) {
    if (!name.starts_with("out.") || name == "out.loss")
      continue;
    std::vector<float> expected = reference->readFloats(name);
    bool present = false;
    for (const plan::Program &program : executor.plan().target().programs())
      for (const plan::Output &output : program.outputs())
        present |= program.name() == "eval" && output.name() == name.substr(4);
    Row row{name, std::numeric_limits<double>::infinity(), normOf(expected), bounds.outputs, ""};
    if (present)
      row.error = distance(executor.output(name.substr(4)), expected) / std::max(row.norm, 1e-30);
    else
      row.note = "missing from the plan";
    rows.push_back(std::move(row));
  }
  runStep(executor, reference);
  executor.calibrateOnly(); // exchanges what the plan accumulates
  addGradients(executor, *reference, bounds.gradients, rows);
  if (rows.empty())
    failData("{}: has neither out.* nor grad.* to compare with", options.reference);

  // Worst first: by how much of its bound an error takes up; what is not a number above all.
  auto share = [](const Row &row) {
    double value = row.error / row.bound;
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
  };
  std::sort(rows.begin(), rows.end(),
            [&](const Row &a, const Row &b) { return share(a) != share(b) ? share(a) > share(b) : a.name < b.name; });
  size_t width = 4;
  for (const Row &row : rows)
    width = std::max(width, row.name.size());
  printOutput("{:<{}}  {:>14}  {:>9}  {:>10}\n", "name", width, "relative error", "bound", "norm");
  size_t failed = 0;
  for (const Row &row : rows) {
    failed += !row.passes();
    printOutput("{:<{}}  {:>14.3e}  {:>9.1e}  {:>10.3e}{}{}{}\n", row.name, width, row.error, row.bound, row.norm,
               row.passes() ? "" : "  FAILED", row.note.empty() ? "" : "  ", row.note);
  }
  printOutput("bounds: loss {:.1e}, outputs {:.1e}, gradients {:.1e} ({})\n", bounds.loss, bounds.outputs,
             bounds.gradients, bounds.reason);
  if (failed == 0)
    printOutput("check passed: {} comparisons with {}\n", rows.size(), options.reference);
  else
    printOutput("check failed: {} of {} comparisons with {} are beyond their bound\n", failed, rows.size(),
               options.reference);
  return failed == 0;
}

} // namespace msamp::train
