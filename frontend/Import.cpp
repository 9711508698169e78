#include "frontend/Import.h"

#include "frontend/BindDims.h"
#include "frontend/ElementType.h"
#include "frontend/LoadModel.h"
#include "frontend/Roles.h"
#include "frontend/translate/Translator.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <onnx/onnx_pb.h>
#include <re2/re2.h>

#include <set>

using namespace mlir;

namespace msamp::frontend {
namespace {

// What is to be done with each initializer.
struct Parameter {
  ParameterRole role;
  bool trained = true; // of a running statistic: whether it moves
  bool drawn = true;   // by --init; the others keep the file's values

  bool isStatistic() const { return frontend::isStatistic(role); }
};
using Parameters = std::map<std::string, Parameter>;

std::string nodeName(const onnx::NodeProto &n) {
  if (!n.name().empty())
    return n.name();
  for (const auto &output : n.output())
    if (!output.empty())
      return n.op_type() + ":" + output;
  return n.op_type();
}

class Importer {
public:
  Importer(const std::string &path, const ImportOptions &options, MLIRContext &context)
      : path(path), options(options), context(context) {}

  OwningOpRef<ModuleOp> run() {
    auto model = parseModel(path);
    weights.emplace(path, model);
    std::map<std::string, ExporterNote> notes = exporterNotes(*model);
    for (const auto &t : model->graph().initializer()) {
      InitializerType type{t.data_type(), {t.dims().begin(), t.dims().end()}, notes.at(t.name())};
      if (!initializers.try_emplace(t.name(), type).second)
        throw Error(kBadData, path + ": two initializers are named " + t.name());
      names.insert(t.name());
      order.push_back(t.name());
    }
    prepared = prepareGraph(path, *model);
    freeze = compile(options.freeze, "--freeze");
    train = compile(options.train, "--train");
    if (options.batchStatistics)
      normaliseByBatch();
    for (const auto &o : prepared.opset_import())
      if (o.domain().empty() || o.domain() == "ai.onnx")
        opset = o.version();
    inputs = bindInputs(path, prepared.graph(), names, options.dims);
    findLive();
    findStatistics();
    findSettings();
    reportUnknownOps();
    // Vectors whose size does not fit their use are found while translating; then it starts again without them.
    for (;;) {
      chooseParameters();
      size_t before = demoted.size();
      OwningOpRef<ModuleOp> module = translate();
      if (demoted.size() != before)
        continue;
      for (const auto &[message, nodes] : warnings)
        emitWarning(FusedLoc::get(&context, nodes))
            << message << (nodes.size() > 4 ? " (" + std::to_string(nodes.size()) + " nodes)" : "");
      tellConstants();
      return module;
    }
  }

private:
  const onnx::GraphProto &graph() const { return prepared.graph(); }

  static bool matches(const std::vector<std::unique_ptr<RE2>> &list, const std::string &name) {
    return llvm::any_of(list, [&](const auto &regex) { return RE2::PartialMatch(name, *regex); });
  }
  bool isFrozen(const std::string &name) const { return matches(freeze, name) && !matches(train, name); }

  // Those whose statistics are frozen stay as they are.
  void normaliseByBatch() {
    bool any = false;
    for (onnx::NodeProto &n : *prepared.mutable_graph()->mutable_node()) {
      if (n.op_type() != "BatchNormalization")
        continue;
      any = true;
      if (n.input_size() == 5 && isFrozen(n.input(3)) && isFrozen(n.input(4)))
        continue;
      auto &attributes = *n.mutable_attribute();
      attributes.erase(std::remove_if(attributes.begin(), attributes.end(),
                                      [](const auto &a) { return a.name() == "training_mode"; }),
                       attributes.end());
      onnx::AttributeProto &mode = *attributes.Add();
      mode.set_name("training_mode");
      mode.set_type(onnx::AttributeProto::INT);
      mode.set_i(1);
    }
    if (!any)
      throw Error(kUsage, "--batch-norm batch: " + path + " has no BatchNormalization");
  }

  // Running statistics of batch norms: all, and those that one node alone reads, which normalises by its batch.
  void findStatistics() {
    std::map<std::string, int> uses;
    for (const auto &n : graph().node())
      for (const auto &input : n.input())
        ++uses[input];
    for (const auto &n : graph().node())
      if (n.op_type() == "BatchNormalization" && n.input_size() == 5)
        for (int i : {3, 4}) {
          statistics.insert(n.input(i));
          bool byBatch =
              llvm::any_of(n.attribute(), [](const auto &a) { return a.name() == "training_mode" && a.i(); });
          if (byBatch && uses[n.input(i)] == 1)
            movable.insert(n.input(i));
        }
  }

  // Numbers that say what a node does.
  void findSettings() {
    for (const auto &n : graph().node())
      for (int i = 0; i < n.input_size(); ++i)
        if (i > 0 && (n.op_type() == "Resize" || n.op_type() == "Dropout"))
          settings.insert(n.input(i));
  }

  static std::string someOf(const std::vector<std::string> &list) {
    constexpr size_t most = 4;
    std::string text;
    for (size_t i = 0; i < std::min(most, list.size()); ++i)
      text += (i ? ", " : "") + list[i];
    return text + (list.size() > most ? ", .." : "");
  }

  // Of what the exporter has computed with and left out only the name is known.
  static bool isNamedLikeAParameter(llvm::StringRef name) {
    llvm::StringRef last = name.substr(name.rfind('.') + 1);
    return llvm::any_of(llvm::ArrayRef<llvm::StringRef>{"weight", "bias", "scale", "gamma", "token", "embed", "table"},
                        [&](llvm::StringRef part) { return last.contains(part); });
  }

  // What a reader may have taken for parameters.
  void tellConstants() {
    std::set<std::string> read;
    for (int i = 0; i < graph().node_size(); ++i)
      if (live[i])
        read.insert(graph().node(i).input().begin(), graph().node(i).input().end());
    std::vector<std::string> constants, folded;
    for (const auto &name : order) {
      if (!read.count(name) || !isFloat(initializers.at(name).type) || parameters.count(name) ||
          statistics.count(name) || isFrozen(name))
        continue;
      const InitializerType &type = initializers.at(name);
      if (type.mayBeLearned())
        constants.push_back(name);
      if (auto from = llvm::find_if(type.note.foldedFrom, isNamedLikeAParameter); from != type.note.foldedFrom.end())
        folded.push_back(name + " (of " + *from + ")");
    }
    if (!constants.empty())
      emitRemark(UnknownLoc::get(&context))
          << constants.size() << (constants.size() == 1 ? " initializer is" : " initializers are")
          << " neither trained nor saved, being constants by their use: " << someOf(constants)
          << "; --train REGEX trains what it matches";
    if (!folded.empty())
      emitWarning(UnknownLoc::get(&context))
          << "the exporter computed " << someOf(folded)
          << " from parameters, which are not trained so; export with optimize=False, or train the result with --train";
  }

  // Nodes that an output depends on.
  void findLive() {
    std::set<std::string> needed;
    for (const auto &output : graph().output())
      needed.insert(output.name());
    live.assign(graph().node_size(), false);
    for (int i = graph().node_size(); i-- > 0;) {
      const auto &n = graph().node(i);
      for (const auto &output : n.output())
        live[i] = live[i] || needed.count(output);
      if (live[i])
        needed.insert(n.input().begin(), n.input().end());
    }
  }

  void fail(const std::vector<std::string> &problems) {
    std::string message = path + ": " + std::to_string(problems.size()) +
                          (problems.size() == 1 ? " node is not supported:" : " nodes are not supported:");
    for (const auto &p : problems)
      message += "\n  " + p;
    throw Error(kBadData, message);
  }

  // What can be seen without shapes, for all nodes at once.
  void reportUnknownOps() {
    std::vector<std::string> problems;
    for (int i = 0; i < graph().node_size(); ++i) {
      const auto &n = graph().node(i);
      bool standard = n.domain().empty() || n.domain() == "ai.onnx";
      if (!live[i])
        continue;
      if (standard && translators().count(n.op_type()))
        continue;
      problems.push_back(nodeName(n) + ": " + (standard ? "" : n.domain() + ".") + n.op_type() +
                         ": no translation for this op");
    }
    if (!problems.empty())
      fail(problems);
  }

  std::vector<std::unique_ptr<RE2>> compile(const std::vector<std::string> &list, const char *flag) const {
    std::vector<std::unique_ptr<RE2>> out;
    for (const auto &text : list) {
      const RE2 &regex = *out.emplace_back(std::make_unique<RE2>(text, RE2::Quiet));
      if (!regex.ok())
        throw Error(kUsage, std::string(flag) + " \"" + text + "\" is not a regular expression: " + regex.error());
      bool any = false;
      for (const auto &[name, type] : initializers)
        any |= isFloat(type.type) && RE2::PartialMatch(name, regex);
      if (!any)
        throw Error(kUsage, std::string(flag) + " \"" + text + "\" matches no floating-point initializer of " + path);
    }
    return out;
  }

  void chooseParameters() {
    parameters.clear();
    for (const auto &[name, role] : inferRoles(graph(), live, initializers, demoted)) {
      // Of what the use tells nothing of, frozen ones are constants, as are those that nothing could train.
      bool constant = isFrozen(name) || settings.count(name) || initializers.at(name).type != onnx::TensorProto::FLOAT;
      if (role.byUse || !constant)
        parameters[name] = {role.role, !isFrozen(name), role.byUse};
    }
    // What has no role by its use is drawn like a table, or starts from 0, by its rank; running statistics are not
    // trained.
    for (const auto &[name, type] : initializers)
      if (isFloat(type.type) && !statistics.count(name) && !settings.count(name) && matches(train, name))
        parameters.try_emplace(name, Parameter{type.dims.size() > 1 ? ParameterRole::Table : ParameterRole::Bias});
    // Parameters that keep their values need them.
    for (const auto &[name, parameter] : parameters)
      if (!options.initStddev || !parameter.trained || !parameter.drawn)
        weights->check(name);
  }

  OwningOpRef<ModuleOp> translate() {
    Location unknown = UnknownLoc::get(&context);
    OwningOpRef<ModuleOp> module = ModuleOp::create(unknown, "model");
    OpBuilder builder(&context);
    (*module)->removeAttr("sym_name");
    (*module)->setAttr("msamp.source", builder.getStringAttr(path));
    if (digest.empty())
      digest = sha256OfFile(path);
    (*module)->setAttr("msamp.source_sha256", builder.getStringAttr(digest));

    builder.setInsertionPointToEnd(module->getBody());
    auto function = func::FuncOp::create(builder, unknown, "forward", builder.getFunctionType({}, {}));
    Block *body = function.addEntryBlock();
    Emitter e(OpBuilder::atBlockEnd(body), *weights);
    e.setLocation(unknown);

    std::map<std::string, Ref> values;
    for (const auto &[name, type] : initializers) {
      values[name] = e.initializer(name, type.type, type.dims);
      auto known = parameters.find(name);
      if (known == parameters.end())
        continue;
      e.setParameter(name);
      if (known->second.isStatistic() && !known->second.trained)
        e.setKept(name);
      else if (known->second.isStatistic() && movable.count(name))
        e.setTracked(name);
    }
    SmallVector<Type> argumentTypes;
    for (const auto &input : graph().input()) {
      auto it = inputs.find(input.name());
      if (it == inputs.end())
        continue;
      Location loc = NameLoc::get(builder.getStringAttr(input.name()));
      argumentTypes.push_back(e.type(it->second.type, it->second.dims));
      values[input.name()] = e.computed(body->addArgument(argumentTypes.back(), loc), it->second.type);
    }
    translateNodes(e, values);
    warnings = e.warned();

    SmallVector<Value> results;
    SmallVector<Type> resultTypes;
    for (int i = 0; i < graph().output_size(); ++i) {
      const auto &output = graph().output(i);
      Ref r = values[output.name()];
      if (!r)
        throw Error(kBadData, path + ": nothing computes the output " + output.name());
      if (!r->elements.empty())
        throw Error(kBadData, path + ": the output " + output.name() + " is a sequence of tensors, not a tensor");
      checkOutput(path, graph(), i, r->dims, options.dims);
      e.setLocation(NameLoc::get(builder.getStringAttr(output.name())));
      results.push_back(e.value(r));
      if (isFloat(r->type))
        checkNotEmpty("output " + output.name(), results.back().getType());
      resultTypes.push_back(results.back().getType());
    }
    func::ReturnOp::create(e.builder, e.loc(), results);
    function.setType(builder.getFunctionType(argumentTypes, resultTypes));
    StringAttr nameAttr = builder.getStringAttr("msamp.name");
    unsigned at = 0;
    for (const auto &input : graph().input())
      if (inputs.count(input.name()))
        function.setArgAttr(at++, nameAttr, builder.getStringAttr(input.name()));
    for (int i = 0; i < graph().output_size(); ++i)
      function.setResultAttr(i, nameAttr, builder.getStringAttr(graph().output(i).name()));

    checkTypes(function);
    addParameters(function, e);
    verifyModule(*module);
    return module;
  }

  // Steps are computed from and for FP32; lower precision is a matter of the level. Nothing can be empty.
  void checkTypes(func::FuncOp function) {
    std::vector<std::string> problems;
    auto check = [&](const std::string &what, Type type) {
      auto tensor = cast<RankedTensorType>(type);
      if (isa<FloatType>(tensor.getElementType()) && !tensor.getElementType().isF32()) {
        std::string text;
        llvm::raw_string_ostream(text) << tensor.getElementType();
        problems.push_back(what + " is of type " + text + "; export the model in float32, --level sets the precision");
      }
      checkNotEmpty(what, tensor);
    };
    for (BlockArgument argument : function.getArguments())
      check("input " + function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "msamp.name").str(),
            argument.getType());
    std::set<std::string> seen;
    function.walk([&](Operation *op) {
      if (auto get = dyn_cast<GetOp>(op)) {
        if (seen.insert(get.getParam().str()).second)
          check("parameter " + get.getParam().str(), get.getType());
      } else if (!isa<arith::ConstantOp>(op)) {
        auto loc = dyn_cast<NameLoc>(op->getLoc());
        for (Type type : op->getResultTypes())
          checkNotEmpty("the result of node " + (loc ? loc.getName().str() : "without a name"), type);
      }
    });
    if (!problems.empty())
      throw Error(kBadData, path + ": " + llvm::join(problems, "\n  "));
  }

  void checkNotEmpty(const std::string &what, Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || tensor.getNumElements() != 0)
      return;
    std::string shape;
    llvm::raw_string_ostream out(shape);
    llvm::interleaveComma(tensor.getShape(), out);
    throw Error(kBadData, path + ": " + what + " has shape [" + shape +
                              "] and so no element; check the sizes that the model has and those given with --dim");
  }

  void translateNodes(Emitter &e, std::map<std::string, Ref> &values) {
    std::vector<std::string> problems;
    std::set<std::string> poisoned; // outputs of nodes that failed
    for (int i = 0; i < graph().node_size(); ++i) {
      if (!live[i])
        continue;
      const auto &n = graph().node(i);
      NodeContext c(e, n, opset, *weights);
      bool skip = false;
      for (const auto &name : n.input()) {
        skip |= poisoned.count(name) != 0;
        auto it = values.find(name);
        if (!name.empty() && it == values.end() && !skip)
          throw Error(kBadData, path + ": node " + nodeName(n) + " reads " + name + ", which nothing computes");
        c.inputs.push_back(name.empty() || it == values.end() ? Ref() : it->second);
      }
      if (!skip) {
        e.setLocation(NameLoc::get(StringAttr::get(&context, nodeName(n))));
        noteMisfits(n, c.inputs);
        try {
          translators().at(n.op_type())(c);
        } catch (const Unsupported &u) {
          problems.push_back(nodeName(n) + ": " + n.op_type() + ": " + u.what());
          skip = true;
        } catch (const Invalid &bad) {
          throw Error(kBadData, path + ": node " + nodeName(n) + " (" + n.op_type() + "): " + bad.what());
        } catch (const std::out_of_range &) {
          throw Error(kBadData,
                      path + ": node " + nodeName(n) + " (" + n.op_type() + "): an operand has too few values");
        }
      }
      for (int o = 0; o < n.output_size(); ++o) {
        if (n.output(o).empty())
          continue;
        if (!skip && o < static_cast<int>(c.outputs.size()) && c.outputs[o])
          values[n.output(o)] = c.outputs[o];
        else
          poisoned.insert(n.output(o));
      }
    }
    if (!problems.empty())
      fail(problems);
  }

  // A scale or bias has the size of the last dimension of what it meets; an outer product with a constant has not.
  void noteMisfits(const onnx::NodeProto &n, const std::vector<Ref> &in) {
    if (n.op_type() != "Mul" && n.op_type() != "Add")
      return;
    for (int i = 0; i < 2 && in.size() == 2; ++i) {
      const Ref &v = in[i], &other = in[1 - i];
      if (!v || !other || v->initializer.empty() || !parameters.count(v->initializer))
        continue;
      if (v->dims.empty() || initializers.at(v->initializer).note.kind == ExporterNote::Kind::Parameter)
        continue; // no need to judge by the sizes
      if (v->dims.back() == 1 && v->rank() > 1)
        continue; // a value a channel
      ParameterRole role = parameters.at(v->initializer).role;
      if ((role == ParameterRole::Scale || role == ParameterRole::Bias) &&
          (other->dims.empty() || other->dims.back() != v->dims.back()))
        demoted.insert(v->initializer);
    }
  }

  // Symbols of the parameters that are read, in the order of the file.
  void addParameters(func::FuncOp function, Emitter &e) {
    std::set<std::string> read;
    function.walk([&](GetOp get) { read.insert(get.getParam().str()); });
    OpBuilder builder(function);
    for (const auto &name : order) {
      // Statistics are saved with the others, whoever reads them.
      if (!read.count(name) && !(parameters.count(name) && parameters.at(name).isStatistic()))
        continue;
      // The functions of later phases are symbols too.
      static const std::set<std::string> reserved = {"forward", "step", "micro_step", "eval", "update", "init"};
      if (reserved.count(name))
        throw Error(kBadData, path + ": a parameter cannot be called " + name +
                                  ", which is a program of the plan; rename the initializer");
      const Parameter &p = parameters.at(name);
      const InitializerType &type = initializers.at(name);
      FloatAttr init;
      if (options.initStddev && p.trained && p.drawn)
        init = builder.getF64FloatAttr(*options.initStddev);
      ParameterOp::create(builder, NameLoc::get(builder.getStringAttr(name)), name, e.type(type.type, type.dims),
                          p.role, p.trained && !p.isStatistic(), init, ArrayAttr(), StateClassAttr());
    }
  }

  void verifyModule(ModuleOp module) {
    std::string messages;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) {
      std::string node;
      if (auto loc = dyn_cast<NameLoc>(d.getLocation()))
        node = "node " + loc.getName().str() + ": ";
      messages += "\n  " + node + d.str();
      return success();
    });
    if (failed(verify(module)))
      throw Error(kBadData, path + ": types or shapes in the graph contradict one another:" + messages);
  }

  const std::string path;
  const ImportOptions &options;
  MLIRContext &context;
  std::optional<WeightSource> weights;
  onnx::ModelProto prepared;
  int64_t opset = 0;
  InitializerTypes initializers;
  std::set<std::string> names;
  std::vector<std::string> order;
  std::map<std::string, InputType> inputs;
  std::vector<bool> live;
  Parameters parameters;
  std::set<std::string> demoted;
  std::vector<std::unique_ptr<RE2>> freeze, train;
  std::set<std::string> statistics, movable; // see findStatistics
  std::set<std::string> settings;            // see findSettings
  std::map<std::string, std::vector<Location>> warnings; // nodes by what is to be said of them
  std::string digest;
};

} // namespace

OwningOpRef<ModuleOp> importModel(const std::string &path, const ImportOptions &options, MLIRContext &context) {
  context.loadDialect<MsampDialect, arith::ArithDialect, math::MathDialect, func::FuncDialect>();
  try {
    return Importer(path, options, context).run();
  } catch (const Invalid &bad) {
    throw Error(kBadData, path + ": " + bad.what());
  } catch (const std::bad_alloc &) {
    throw Error(kInternal, path + ": out of memory while importing");
  }
}

} // namespace msamp::frontend
