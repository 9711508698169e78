#include "tools/msamp-inspect/Describe.h"

#include <algorithm>
#include <set>

#include "runtime/core/Types.h"
#include "runtime/plan/MemoryTable.h"
#include "runtime/plan/StepTraits.h"

namespace msamp::inspect {
using namespace runtime;

namespace {

std::string typeName(plan::Type type) {
  return std::string(nameOf(static_cast<Type>(type)));
}

template <class Shape>
Json shapeOf(const Shape &shape) {
  Json list = Json::array();
  for (int64_t d : shape)
    list.push_back(d);
  return list;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

Json header(const LoadedPlan &loaded) {
  const plan::Plan &plan = loaded.plan;
  Json h;
  h["directory"] = loaded.directory.string();
  h["schema"] = std::to_string(plan.major()) + "." + std::to_string(plan.minor());
  h["compiler"] = plan.compiler();
  h["pipeline"] = plan.pipeline();
  h["source"] = plan.source();
  h["source_sha256"] = plan.source_sha256();
  h["level"] = plan.level();
  h["recipe"] = plan.recipe();
  h["optimizer"] = plan.optimizer();
  h["targets"] = targetNames(plan);
  h["loss"] = plan.loss();
  h["accumulate"] = plan.accumulate();
  h["zero"] = plan.zero();
  h["amax_history"] = plan.history();
  h["tokens_per_micro_batch"] = plan.tokens_per_micro_batch();
  return h;
}

Json inputs(const plan::Plan &plan) {
  Json list = Json::array();
  for (const plan::Input &input : plan.inputs()) {
    Json entry{{"name", input.name()}, {"type", typeName(input.type())}, {"shape", shapeOf(input.shape())}};
    if (input.is_labels())
      entry["labels"] = true;
    if (input.bound() > 0)
      entry["below"] = input.bound();
    list.push_back(entry);
  }
  return list;
}

const char *initName(plan::Parameter::Init init) {
  switch (init) {
  case plan::Parameter::FROM_FILE:
    return "from-model";
  case plan::Parameter::NORMAL:
    return "normal";
  case plan::Parameter::ONES:
    return "ones";
  default:
    return "zeros";
  }
}

// Running statistics that steps write.
std::set<std::string> trackedOf(const plan::Plan &plan) {
  std::set<std::string> names;
  for (const plan::Target &target : plan.targets())
    for (const plan::Program &program : target.programs())
      for (const plan::Step &step : program.steps())
        for (const plan::Operand &output : step.outputs())
          if (output.kind() == plan::Operand::WEIGHT)
            names.insert(plan.parameters(static_cast<int>(output.index())).name());
  return names;
}

Json parameters(const plan::Plan &plan) {
  Json list = Json::array();
  const std::set<std::string> tracked = trackedOf(plan);
  for (const plan::Parameter &parameter : plan.parameters()) {
    const plan::StateClass &state = plan.classes(static_cast<int>(parameter.state_class()));
    Json entry{{"name", parameter.name()},
               {"kind", parameter.trained() ? "trained" : tracked.count(parameter.name()) ? "tracked" : "frozen"},
               {"role", lower(plan::Parameter::Role_Name(parameter.role()))},
               {"shape", shapeOf(parameter.shape())},
               {"class", state.name()},
               {"weight", typeName(state.weight())},
               {"scaled", state.weight_scaled()}};
    if (parameter.trained()) {
      entry["master"] = typeName(state.master());
      entry["gradient"] = typeName(state.grad());
      entry["moments"] = Json::array({typeName(state.m()), typeName(state.v())});
    }
    entry["init"] = initName(parameter.init());
    if (parameter.init() == plan::Parameter::NORMAL)
      entry["stddev"] = parameter.init_stddev();
    for (const plan::Twin &twin : parameter.twins())
      entry["twins"].push_back(Json{{"name", twin.name()}, {"transposed", twin.transposed()}});
    list.push_back(entry);
  }
  return list;
}

Json constants(const plan::Target &target) {
  Json list = Json::array();
  for (const plan::Constant &constant : target.constants())
    list.push_back(Json{{"name", constant.name()},
                        {"kind", "constant"},
                        {"shape", shapeOf(constant.shape())},
                        {"weight", typeName(constant.type())}});
  return list;
}

Json buckets(const plan::Plan &plan) {
  Json list = Json::array();
  for (const plan::Bucket &bucket : plan.buckets()) {
    const plan::StateClass &state = plan.classes(static_cast<int>(bucket.state_class()));
    list.push_back(Json{{"name", bucket.name()},
                        {"class", state.name()},
                        {"elements", bucket.elements()},
                        {"parameters", bucket.parameters_size()},
                        {"gradient", typeName(state.grad())},
                        {"wire", typeName(state.wire())}});
  }
  return list;
}

Json sites(const plan::Plan &plan) {
  Json list = Json::array();
  for (const plan::Site &site : plan.sites())
    list.push_back(Json{{"name", site.name()},
                        {"kind", lower(plan::Site::Kind_Name(site.kind()))},
                        {"format", typeName(site.format())},
                        {"margin", site.margin()}});
  return list;
}

Json memory(const plan::Plan &plan, const plan::Target &target, unsigned ranks) {
  constexpr const char *names[roleCount] = {"weights", "master",      "gradients", "moments",   "scales",
                                            "padding", "activations", "workspace", "constants", "inputs"};
  Json list = Json::array();
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const RoleBytes bytes = memoryOfRank(plan, target, rank, ranks);
    Json entry;
    uint64_t total = 0;
    for (size_t role = 0; role < roleCount; ++role) {
      entry[names[role]] = bytes[role];
      total += bytes[role];
    }
    entry["total"] = total;
    list.push_back(entry);
  }
  return list;
}

Json operand(const plan::Plan &plan, const plan::Target &target, const plan::Program &program, const plan::Operand &from) {
  Json entry{{"kind", lower(plan::Operand::Kind_Name(from.kind()))}};
  const int index = static_cast<int>(from.index());
  switch (from.kind()) {
  case plan::Operand::BUFFER:
    entry["buffer"] = index;
    break;
  case plan::Operand::INPUT:
    entry["name"] = plan.inputs(index).name();
    break;
  case plan::Operand::CONSTANT:
    entry["name"] = target.constants(index).name();
    break;
  case plan::Operand::SITE_SCALE:
    entry["name"] = plan.sites(index).name();
    break;
  case plan::Operand::OUTPUT:
    entry["name"] = program.outputs(index).name();
    break;
  default:
    entry["name"] = plan.parameters(index).name();
    break;
  }
  entry["type"] = typeName(from.type());
  entry["shape"] = shapeOf(from.shape());
  if (from.strides_size() > 0)
    entry["strides"] = shapeOf(from.strides());
  return entry;
}

Json entryPoint(const plan::Entry &entry) {
  return Json{{"symbol", entry.symbol()},
              {"grid", Json::array({entry.grid_x(), entry.grid_y()})},
              {"block", entry.block()},
              {"shared", entry.shared_bytes()}};
}

std::string kindOf(const plan::Step &step) {
  const auto *oneof = plan::Step::descriptor()->FindOneofByName("kind");
  const auto *field = step.GetReflection()->GetOneofFieldDescriptor(step, oneof);
  return field ? std::string(field->name()) : "unknown";
}

Json step(const plan::Plan &plan, const plan::Target &target, const plan::Program &program, const plan::Step &from,
          unsigned ranks) {
  Json entry{{"kind", kindOf(from)}, {"name", from.name()}, {"device", target.name()}};
  if (from.when() == plan::Step::FIRST)
    entry["when"] = "first";
  if (from.has_launch()) {
    const plan::Kernel &kernel = target.kernels(static_cast<int>(from.launch().kernel()));
    entry["cluster"] = kernel.cluster();
    entry["chunks"] = kernel.chunks();
    for (const plan::Entry &e : kernel.entries())
      entry["entries"].push_back(entryPoint(e));
  }
  if (from.has_update()) {
    const int index = static_cast<int>(from.update().state_class());
    if (index < target.updates_size()) {
      entry["entries"].push_back(entryPoint(target.updates(index).entry()));
      entry["blocks_per_cta"] = target.updates(index).blocks_per_cta();
    }
  }
  if (from.has_matmul()) {
    entry["transpose"] = Json::array({from.matmul().transpose_a(), from.matmul().transpose_b()});
    entry["fp8_values"] = from.matmul().fp8_values();
  }
  for (unsigned index : from.calibrate().sites())
    entry["sites"].push_back(plan.sites(static_cast<int>(index)).name());
  for (unsigned index : from.record_amax().sites())
    entry["sites"].push_back(plan.sites(static_cast<int>(index)).name());
  entry["inputs"] = Json::array();
  for (const plan::Operand &input : from.inputs())
    entry["inputs"].push_back(operand(plan, target, program, input));
  entry["outputs"] = Json::array();
  for (const plan::Operand &output : from.outputs())
    entry["outputs"].push_back(operand(plan, target, program, output));
  entry["bytes"] = bytesOf(plan, from, ranks);
  entry["flops"] = from.flops();
  entry["backward"] = from.backward();
  entry["nodes"] = Json::array();
  for (const std::string &node : from.nodes())
    entry["nodes"].push_back(node);
  return entry;
}

Json programs(const plan::Plan &plan, const plan::Target &target, unsigned ranks) {
  Json list = Json::array();
  for (const plan::Program &program : target.programs()) {
    Json entry{{"name", program.name()},
               {"arena_bytes", program.arena_bytes()},
               {"workspace_bytes", program.arena_workspace_bytes()}};
    uint64_t bytes = 0, flops = 0;
    for (const plan::Step &s : program.steps()) {
      if (s.when() == plan::Step::FIRST)
        continue;
      bytes += bytesOf(plan, s, ranks);
      flops += s.flops();
    }
    entry["bytes"] = bytes;
    entry["flops"] = flops;
    entry["outputs"] = Json::array();
    for (const plan::Output &output : program.outputs())
      entry["outputs"].push_back(
          Json{{"name", output.name()}, {"type", typeName(output.type())}, {"shape", shapeOf(output.shape())}});
    entry["buffers"] = Json::array();
    for (const plan::Buffer &buffer : program.buffers())
      entry["buffers"].push_back(Json{{"name", buffer.name()},
                                      {"role", lower(plan::Role_Name(buffer.role()))},
                                      {"offset", buffer.offset()},
                                      {"bytes", buffer.bytes()},
                                      {"steps", Json::array({buffer.first_step(), buffer.last_step()})}});
    entry["steps"] = Json::array();
    for (const plan::Step &s : program.steps())
      entry["steps"].push_back(step(plan, target, program, s, ranks));
    list.push_back(entry);
  }
  return list;
}

} // namespace

Json describe(const LoadedPlan &loaded, unsigned ranks) {
  const plan::Plan &plan = loaded.plan;
  Json d;
  d["header"] = header(loaded);
  d["inputs"] = inputs(plan);
  d["parameters"] = parameters(plan);
  d["buckets"] = buckets(plan);
  d["sites"] = sites(plan);
  d["targets"] = Json::array();
  for (const plan::Target &target : plan.targets())
    d["targets"].push_back(Json{{"name", target.name()},
                                {"constants", constants(target)},
                                {"memory", memory(plan, target, ranks)},
                                {"programs", programs(plan, target, ranks)}});
  d["parts"] = Json::array();
  for (const plan::Part &part : plan.parts())
    d["parts"].push_back(Json{{"path", part.path()}, {"bytes", part.bytes()}, {"sha256", part.sha256()}});
  return d;
}

} // namespace msamp::inspect
