// What exporters say of the initializers of a file: PyTorch's (torch.onnx.export with dynamo=True) in metadata, others
// by the names that they give.
#ifndef MSAMP_FRONTEND_EXPORTERNOTES_H
#define MSAMP_FRONTEND_EXPORTERNOTES_H

#include <map>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace msamp::frontend {

struct ExporterNote {
  // Made up by the exporter; of the module, a parameter or a buffer; a parameter; a constant: a buffer, or a tensor
  // that is neither.
  enum class Kind { None, Module, Parameter, Constant };
  Kind kind = Kind::None;
  std::vector<std::string> foldedFrom; // what the exporter computed it from
};

// By initializer, for all of them.
std::map<std::string, ExporterNote> exporterNotes(const onnx::ModelProto &model);

} // namespace msamp::frontend

#endif
