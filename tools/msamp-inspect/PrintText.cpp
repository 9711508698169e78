// The description for people: a section each for header and parameters, and for memory and programs of each target.
#include <algorithm>

#include "runtime/core/Error.h"
#include "tools/msamp-inspect/Describe.h"

namespace msamp::inspect {

namespace {

// Nodes of a step that the table has room for; JSON has all.
constexpr size_t shownNodes = 3;

std::string shapeText(const Json &shape) {
  std::string text;
  for (const Json &d : shape)
    text += (text.empty() ? "" : "x") + std::to_string(d.get<int64_t>());
  return text.empty() ? "scalar" : text;
}

std::string amount(double value, const char *unit) {
  static constexpr const char *prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t i = 0;
  for (; value >= 9999.5 && i < 5; ++i)
    value /= 1000;
  return fmt::format("{:.0f} {}{}", value, prefixes[i], unit);
}

// Columns as wide as their widest cell; the last one is not padded.
void printTable(const std::vector<std::vector<std::string>> &rows, std::ostream &out) {
  std::vector<size_t> widths;
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i)
        widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const auto &row : rows) {
    out << " ";
    for (size_t i = 0; i < row.size(); ++i)
      out << " " << (i + 1 == row.size() ? row[i] : fmt::format("{:<{}} ", row[i], widths[i]));
    out << "\n";
  }
}

void printParameters(const Json &parameters, std::ostream &out) {
  for (const char *kind : {"trained", "tracked", "frozen", "constant"}) {
    std::vector<std::vector<std::string>> rows;
    uint64_t values = 0;
    for (const Json &p : parameters) {
      if (p["kind"] != kind)
        continue;
      uint64_t elements = 1;
      for (const Json &d : p["shape"])
        elements *= d.get<uint64_t>();
      values += elements;
      std::string storage = p["weight"].get<std::string>() + (p.value("scaled", false) ? "*scale" : "");
      std::string state;
      if (p.contains("gradient")) {
        state = fmt::format("gradient {}, moments {} {}", p["gradient"].get<std::string>(),
                            p["moments"][0].get<std::string>(), p["moments"][1].get<std::string>());
        if (p["master"] != "none")
          state = "master " + p["master"].get<std::string>() + ", " + state;
      }
      std::string name = p["name"];
      if (p.contains("twins"))
        for (const Json &twin : p["twins"])
          name += " = " + twin["name"].get<std::string>() + (twin["transposed"].get<bool>() ? "^T" : "");
      rows.push_back({p.value("role", ""), shapeText(p["shape"]), p.value("class", ""), storage, state, name});
    }
    if (rows.empty())
      continue;
    out << fmt::format("\n{} {}: {} values\n", rows.size(), kind, values);
    printTable(rows, out);
  }
}

std::string operandText(const Json &operand) {
  std::string text = operand["type"].get<std::string>() + "[" + shapeText(operand["shape"]) + "]";
  std::string kind = operand["kind"];
  return kind == "buffer" ? text : kind + " " + text;
}

// `<<<grid, threads, shared>>>`; the grid of an update follows from the blocks at hand.
std::string entryText(const Json &entry) {
  std::string grid = "blocks";
  if (entry["grid"][0] != 0)
    grid = entry["grid"][0].dump() + (entry["grid"][1] != 1 ? "x" + entry["grid"][1].dump() : "");
  return fmt::format("<<<{}, {}, {}>>>", grid, entry["block"].dump(), entry["shared"].dump());
}

void printPrograms(const Json &programs, std::ostream &out) {
  for (const Json &program : programs) {
    out << fmt::format("\nprogram {}: {} steps, {} moved, {}, arena {} bytes\n", program["name"].get<std::string>(),
                       program["steps"].size(), amount(program["bytes"].get<double>(), "B"),
                       amount(program["flops"].get<double>(), "FLOP"), program["arena_bytes"].get<uint64_t>());
    std::vector<std::vector<std::string>> rows;
    size_t index = 0;
    for (const Json &step : program["steps"]) {
      std::string operands;
      for (const Json &input : step["inputs"])
        operands += (operands.empty() ? "" : ", ") + operandText(input);
      operands += " -> ";
      for (size_t i = 0; i < step["outputs"].size(); ++i)
        operands += (i ? ", " : "") + operandText(step["outputs"][i]);
      std::string nodes = step["backward"].get<bool>() ? "backward" : "";
      for (size_t i = 0; i < std::min(shownNodes, step["nodes"].size()); ++i)
        nodes += (nodes.empty() ? "" : " ") + step["nodes"][i].get<std::string>();
      if (step["nodes"].size() > shownNodes)
        nodes += fmt::format(" +{}", step["nodes"].size() - shownNodes);
      std::string what = step["kind"];
      if (step.contains("cluster"))
        what += " " + step["name"].get<std::string>() + " (" + step["cluster"].get<std::string>() + ")";
      if (step.contains("entries"))
        for (const Json &entry : step["entries"])
          what += " " + entryText(entry);
      rows.push_back({std::to_string(index++), step["device"], step.contains("when") ? "first" : "", what,
                      amount(step["bytes"].get<double>(), "B"), amount(step["flops"].get<double>(), "FLOP"), nodes,
                      operands});
    }
    printTable(rows, out);
  }
}

} // namespace

static void printTarget(const Json &target, std::ostream &out) {
  out << fmt::format("\ntarget {}\n", target["name"].get<std::string>());
  printParameters(target["constants"], out);
  out << "\nmemory in bytes, a column a rank\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto &[role, bytes] : target["memory"][0].items()) {
    rows.push_back({role});
    for (const Json &rank : target["memory"])
      rows.back().push_back(rank[role].dump());
  }
  printTable(rows, out);
  printPrograms(target["programs"], out);
}

static std::string headerText(const Json &value) {
  if (value.is_array())
    return fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), ", "));
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void printText(const Json &d, std::ostream &out) {
  for (const auto &[key, value] : d["header"].items())
    out << fmt::format("{:<24}{}\n", key, headerText(value));
  for (const Json &input : d["inputs"]) {
    out << fmt::format("{:<24}{} {}[{}]", input.contains("labels") ? "labels" : "input",
                       input["name"].get<std::string>(), input["type"].get<std::string>(), shapeText(input["shape"]));
    out << (input.contains("below") ? fmt::format(" below {}\n", input["below"].get<int64_t>()) : "\n");
  }
  printParameters(d["parameters"], out);
  out << fmt::format("\n{} gradient buckets, {} scale sites\n", d["buckets"].size(), d["sites"].size());
  for (const Json &target : d["targets"])
    printTarget(target, out);
}

} // namespace msamp::inspect
