#include "frontend/Roles.h"

#include "frontend/EinsumEquation.h"
#include "frontend/ElementType.h"

#include <onnx/onnx_pb.h>

#include <algorithm>

namespace msamp::frontend {
namespace {

// What a value of the graph depends on.
enum class Kind { Constant, Data, Activation };

// The initializer that a value is a view or a copy of.
struct Origin {
  std::string name;
  bool direct = true; // same shape as the initializer
};

bool isOneOf(const std::string &op, std::initializer_list<const char *> ops) {
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

class Inference {
public:
  Inference(const onnx::GraphProto &graph, const std::vector<bool> &live, const InitializerTypes &initializers,
            const std::set<std::string> &demoted)
      : graph(graph), live(live), initializers(initializers), demoted(demoted) {
    for (int i = 0; i < graph.node_size(); ++i)
      if (live[i])
        for (const auto &name : graph.node(i).input())
          consumers[name].push_back(&graph.node(i));
    for (const auto &input : graph.input())
      if (!initializers.count(input.name()))
        kinds[input.name()] = isFloat(input.type().tensor_type().elem_type()) ? Kind::Activation : Kind::Data;
    for (const auto &[name, type] : initializers)
      if (isFloat(type.type))
        origins[name] = {name, true};
  }

  Roles run() {
    for (int i = 0; i < graph.node_size(); ++i)
      if (live[i])
        visit(graph.node(i));
    for (const auto &[name, type] : initializers)
      if (isFloat(type.type) && type.note.kind == ExporterNote::Kind::Parameter && consumers.count(name))
        roles.try_emplace(name, Role{factors.count(name)    ? ParameterRole::Scale
                                     : type.dims.size() > 1 ? ParameterRole::Table
                                                            : ParameterRole::Bias,
                                     /*byUse=*/false});
    return roles;
  }

private:
  Kind kind(const onnx::NodeProto &n, int i) const {
    auto it = i < n.input_size() ? kinds.find(n.input(i)) : kinds.end();
    return it == kinds.end() ? Kind::Constant : it->second;
  }

  const Origin *origin(const onnx::NodeProto &n, int i) const {
    auto it = i < n.input_size() ? origins.find(n.input(i)) : origins.end();
    return it == origins.end() ? nullptr : &it->second;
  }

  const std::vector<int64_t> &dims(const Origin &o) const { return initializers.at(o.name).dims; }
  ExporterNote::Kind noted(const Origin &o) const { return initializers.at(o.name).note.kind; }
  bool mayBeLearned(const Origin &o) const { return initializers.at(o.name).mayBeLearned(); }

  // Gives input i a role if it is an initializer (through views).
  bool assign(const onnx::NodeProto &n, int i, ParameterRole role) {
    const Origin *o = origin(n, i);
    if (!o || (noted(*o) == ExporterNote::Kind::Constant && !isStatistic(role)))
      return false;
    roles.try_emplace(o->name, Role{role});
    return true;
  }

  // Whether all that becomes of a value is to be multiplied: a rotary table. One that is added, or that a layer reads,
  // is learned.
  bool onlyMultiplied(const std::string &name, int depth = 0) const {
    auto it = consumers.find(name);
    if (it == consumers.end() || depth > 16)
      return false;
    for (const auto *n : it->second) {
      if (n->op_type() == "Mul")
        continue;
      bool view = isOneOf(n->op_type(), {"Reshape", "Unsqueeze", "Squeeze", "Transpose", "Cast", "Identity", "Slice",
                                         "Expand", "Concat", "Split", "Flatten", "Tile", "Neg"});
      if (!view)
        return false;
      for (const auto &output : n->output())
        if (consumers.count(output) && !onlyMultiplied(output, depth + 1))
          return false;
    }
    return true;
  }

  // Whether a value ends in a softmax: a mask or a bias of attention scores was added to it.
  bool reachesSoftmax(const std::string &name, int depth = 0) const {
    auto it = consumers.find(name);
    if (it == consumers.end() || depth > 4)
      return false;
    for (const auto *n : it->second) {
      if (n->op_type() == "Softmax")
        return true;
      if (isOneOf(n->op_type(), {"Add", "Where", "Reshape", "Cast", "Max", "Clip"}) &&
          reachesSoftmax(n->output(0), depth + 1))
        return true;
    }
    return false;
  }

  // A vector along the last dimension; `alsoOnes` lets it have leading dimensions of 1.
  bool isVector(const Origin &o, bool alsoOnes) const {
    const auto &d = dims(o);
    if (!o.direct || d.empty() || d.back() < 2 || demoted.count(o.name))
      return false;
    return d.size() == 1 || (alsoOnes && std::all_of(d.begin(), d.end() - 1, [](int64_t n) { return n == 1; }));
  }

  // The bias of a layer with one output: to tell it from a constant factor or epsilon, its layer has to be in sight.
  bool isBiasOfOne(const Origin &o, const std::string &layer) const {
    return o.direct && dims(o) == std::vector<int64_t>{1} && !demoted.count(o.name) && layersOfOne.count(layer);
  }

  // A learned token or position table that is used whole. By its use alone it could be a constant that the exporter
  // computed; but not by its name.
  bool isLearnedBlock(const Origin &o) const {
    const auto &d = dims(o);
    return d.size() >= 2 && d[0] == 1 && d.back() > 1 && mayBeLearned(o);
  }

  // A value a channel, of a norm that the exporter spelt out: a vector that got dimensions behind it, or has them.
  bool isOfChannels(const Origin &o) const {
    const auto &d = dims(o);
    const auto wide = std::count_if(d.begin(), d.end(), [](int64_t n) { return n != 1; });
    return wide == 1 && mayBeLearned(o) && !demoted.count(o.name) && (o.direct ? d.back() == 1 : d.size() == 1);
  }

  // Whether an operand of an Einsum is a weight that another one is multiplied by: of its dimensions one is summed with
  // the other's, and one is its own.
  static bool isWeightOf(const EinsumEquation &equation, size_t i) {
    if (i >= equation.operands.size())
      return false;
    auto lettersOf = [](const EinsumTerm &term) { return term.before + term.after; };
    std::string others;
    for (size_t j = 0; j < equation.operands.size(); ++j)
      others += j == i ? "" : lettersOf(equation.operands[j]);
    bool summed = false, own = false;
    for (char label : lettersOf(equation.operands[i])) {
      const bool shared = others.find(label) != std::string::npos;
      // Without a result letters that are there once are in it.
      const bool stays = equation.result ? lettersOf(*equation.result).find(label) != std::string::npos : !shared;
      summed |= shared && !stays;
      own |= !shared && stays;
    }
    return summed && own;
  }

  bool assignOperands(const onnx::NodeProto &n) {
    EinsumEquation equation;
    for (const auto &a : n.attribute())
      if (a.name() == "equation")
        equation = parseEinsum(a.s());
    bool learned = false;
    for (int i = 0; i < n.input_size(); ++i) {
      bool meetsActivation = false;
      for (int j = 0; j < n.input_size(); ++j)
        meetsActivation |= j != i && kind(n, j) == Kind::Activation;
      const Origin *o = origin(n, i);
      if (!o || !meetsActivation)
        continue;
      const bool weight = isWeightOf(equation, static_cast<size_t>(i));
      if (weight || mayBeLearned(*o))
        learned |= assign(n, i, weight && dims(*o).size() == 2 ? ParameterRole::Matrix : ParameterRole::Table);
    }
    return learned;
  }

  void assignStatistic(const onnx::NodeProto &n, int i, ParameterRole role) {
    const Origin *o = origin(n, i);
    if (o && o->name == n.input(i) && initializers.at(o->name).type == onnx::TensorProto::FLOAT)
      assign(n, i, role);
  }

  void visit(const onnx::NodeProto &n) {
    const std::string &op = n.op_type();
    bool learned = false;
    if (isOneOf(op, {"MatMul", "Gemm"})) {
      for (int i = 0; i < 2; ++i)
        if (kind(n, 1 - i) == Kind::Activation)
          learned |= assign(n, i, ParameterRole::Matrix);
      if (const Origin *o = origin(n, 1); learned && o && dims(*o).size() == 2 && dims(*o)[o->direct ? 1 : 0] == 1)
        layersOfOne.insert(n.output(0));
      if (op == "Gemm" && (learned || kind(n, 0) == Kind::Activation))
        assign(n, 2, ParameterRole::Bias);
    } else if (op == "Einsum") {
      learned = assignOperands(n);
    } else if (isOneOf(op, {"Conv", "ConvTranspose"})) {
      if (kind(n, 0) == Kind::Activation) {
        assign(n, 1, ParameterRole::Filter);
        assign(n, 2, ParameterRole::Bias);
      }
    } else if (op == "Gather") {
      const Origin *o = origin(n, 0);
      int64_t axis = 0;
      for (const auto &a : n.attribute())
        if (a.name() == "axis")
          axis = a.i();
      if (o && o->direct && axis == 0 && dims(*o).size() >= 2 && !onlyMultiplied(n.output(0)))
        learned = assign(n, 0, ParameterRole::Table);
    } else if (isOneOf(op, {"LayerNormalization", "RMSNormalization", "BatchNormalization", "GroupNormalization",
                            "InstanceNormalization"})) {
      // What a group norm becomes has ones and zeros that the exporter made up.
      const Origin *scale = origin(n, 1);
      if (kind(n, 0) == Kind::Activation && (op != "InstanceNormalization" || (scale && mayBeLearned(*scale)))) {
        assign(n, 1, ParameterRole::Scale);
        assign(n, 2, ParameterRole::Shift);
      }
      if (op == "BatchNormalization") {
        assignStatistic(n, 3, ParameterRole::Mean);
        assignStatistic(n, 4, ParameterRole::Variance);
      }
    } else if (isOneOf(op, {"Mul", "Add"})) {
      for (int i = 0; i < 2; ++i) {
        const Origin *o = origin(n, i);
        bool scale = op == "Mul";
        if (o && scale)
          factors.insert(o->name);
        if (!o || kind(n, 1 - i) != Kind::Activation)
          continue;
        if (isOfChannels(*o)) {
          learned |= assign(n, i, scale ? ParameterRole::Scale : ParameterRole::Bias);
          continue;
        }
        if (!scale && !isVector(*o, true) && isLearnedBlock(*o) && !reachesSoftmax(n.output(0))) {
          learned |= assign(n, i, ParameterRole::Table);
          continue;
        }
        if (!isVector(*o, !scale) && (scale || !isBiasOfOne(*o, n.input(1 - i))))
          continue;
        if (dims(*o).size() > 1 && reachesSoftmax(n.output(0)))
          continue;
        learned |= assign(n, i, scale ? ParameterRole::Scale : ParameterRole::Bias);
      }
    } else if (op == "PRelu") {
      if (kind(n, 0) == Kind::Activation)
        assign(n, 1, ParameterRole::Bias);
    } else if (op == "Concat") {
      bool meetsActivation = false;
      for (int i = 0; i < n.input_size(); ++i)
        meetsActivation |= kind(n, i) == Kind::Activation;
      for (int i = 0; i < n.input_size() && meetsActivation; ++i)
        if (const Origin *o = origin(n, i); o && isLearnedBlock(*o))
          learned |= assign(n, i, ParameterRole::Table);
    }
    propagate(n, learned);
  }

  void propagate(const onnx::NodeProto &n, bool learned) {
    const std::string &op = n.op_type();
    if (isOneOf(op, {"Shape", "Size"}))
      return;
    Kind k = learned ? Kind::Activation : Kind::Constant;
    for (int i = 0; i < n.input_size(); ++i) {
      k = std::max(k, kind(n, i));
      // A view of what was just found to be a parameter.
      const Origin *o = origin(n, i);
      if (o && (roles.count(o->name) || noted(*o) == ExporterNote::Kind::Parameter))
        k = Kind::Activation;
    }
    for (const auto &output : n.output())
      if (!output.empty())
        kinds[output] = k;
    const Origin *o = origin(n, 0);
    if (o && isOneOf(op, {"Transpose", "Reshape", "Cast", "CastLike", "Identity", "Squeeze", "Unsqueeze", "Flatten",
                          "Expand"})) {
      origins[n.output(0)] = {o->name, o->direct && isOneOf(op, {"Cast", "CastLike", "Identity"})};
      // Still the initializer itself, whatever else reads it.
      if (kind(n, 0) == Kind::Constant)
        kinds[n.output(0)] = Kind::Constant;
    }
  }

  const onnx::GraphProto &graph;
  const std::vector<bool> &live;
  const InitializerTypes &initializers;
  const std::set<std::string> &demoted;
  std::map<std::string, Kind> kinds;
  std::map<std::string, Origin> origins;
  std::set<std::string> layersOfOne; // outputs of linear layers of width 1
  std::set<std::string> factors;     // initializers that something is multiplied by
  std::map<std::string, std::vector<const onnx::NodeProto *>> consumers;
  Roles roles;
};

} // namespace

Roles inferRoles(const onnx::GraphProto &graph, const std::vector<bool> &live, const InitializerTypes &initializers,
                 const std::set<std::string> &demoted) {
  return Inference(graph, live, initializers, demoted).run();
}

} // namespace msamp::frontend
