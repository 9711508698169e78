#include "frontend/ExporterNotes.h"

#include <onnx/onnx_pb.h>
#include <re2/re2.h>

namespace msamp::frontend {
namespace {

template <class Properties>
void read(const Properties &properties, ExporterNote &note) {
  for (const auto &p : properties) {
    if (p.key() == "pkg.torch.export.graph_signature.InputSpec.kind") {
      note.kind = p.value() == "PARAMETER" ? ExporterNote::Kind::Parameter : ExporterNote::Kind::Constant;
    } else if (p.key() == "pkg.onnxscript.optimizer.folded_from") { // ['a', 'b']
      static const RE2 quoted("'([^']*)'");
      re2::StringPiece rest(p.value());
      for (std::string name; RE2::FindAndConsume(&rest, quoted, &name);)
        note.foldedFrom.push_back(name);
    }
  }
}

// TorchScript's exporter names nodes by their places in the module ("/blocks.0/MatMul"), and with a "::" or such a
// place what it makes up; a parameter of the whole module has a plain name then. Others make up plain names, and the
// dots tell.
bool isTorchScript(const onnx::GraphProto &graph) {
  for (const auto &n : graph.node())
    if (n.name().starts_with("/"))
      return true;
  return false;
}

} // namespace

std::map<std::string, ExporterNote> exporterNotes(const onnx::ModelProto &model) {
  std::map<std::string, ExporterNote> notes;
  const bool plain = isTorchScript(model.graph());
  for (const auto &initializer : model.graph().initializer()) {
    const std::string &name = initializer.name();
    const bool madeUp = name.find("::") != std::string::npos || name.starts_with("/");
    ExporterNote &note = notes[name];
    if (!madeUp && (plain || name.find('.') != std::string::npos))
      note.kind = ExporterNote::Kind::Module;
    read(initializer.metadata_props(), note);
  }
  // PyTorch has them at the values of that name.
  for (const auto &value : model.graph().value_info())
    if (auto it = notes.find(value.name()); it != notes.end())
      read(value.metadata_props(), it->second);
  return notes;
}

} // namespace msamp::frontend
