// Reading, checking and modernising an ONNX file, without ever touching the values of its weights.
#ifndef MSAMP_FRONTEND_LOADMODEL_H
#define MSAMP_FRONTEND_LOADMODEL_H

#include <memory>
#include <string>

namespace onnx {
class ModelProto;
}

namespace msamp::frontend {

// Parses the file. Throws Error: kIo if it cannot be read, kBadData if it is no (whole) ONNX model.
std::shared_ptr<const onnx::ModelProto> parseModel(const std::string &path);

// The graph to translate: checked, functions inlined, in the newest opset that ONNX can convert it to. Initializers are
// graph inputs in it (those of 64 bytes or less excepted); their values stay in `model`.
onnx::ModelProto prepareGraph(const std::string &path, const onnx::ModelProto &model);

std::string sha256OfFile(const std::string &path);

} // namespace msamp::frontend

#endif
