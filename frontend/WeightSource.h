// Values of a model's initializers, by name: in the ONNX file itself or mapped from its external data files.
#ifndef MSAMP_FRONTEND_WEIGHTSOURCE_H
#define MSAMP_FRONTEND_WEIGHTSOURCE_H

#include "frontend/Error.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
class TensorProto;
} // namespace onnx

namespace msamp::frontend {

class MappedFile;

class WeightSource {
public:
  struct View {
    int onnxType = 0; // onnx::TensorProto::DataType
    std::vector<int64_t> dims;
    const void *data = nullptr;
    size_t bytes = 0;
    std::shared_ptr<const void> keepAlive;
  };

  // Throws Error as importModel does for a file that is no model.
  static std::unique_ptr<WeightSource> open(const std::string &modelPath);
  WeightSource(const std::string &modelPath, std::shared_ptr<const onnx::ModelProto> model);
  ~WeightSource();

  bool has(const std::string &name) const { return tensors.count(name) != 0; }
  // Row-major little-endian values. Throws Error if the data is absent, short, or outside of the model's folder.
  View get(const std::string &name) const;
  // Throws as get would, without touching the values.
  void check(const std::string &name) const;

  // View of any tensor of the model (attributes of Constant nodes, for instance).
  View view(const onnx::TensorProto &tensor, const std::string &what) const;

private:
  struct External {
    std::string file;
    int64_t offset = 0;
    size_t bytes = 0;
  };
  External locate(const onnx::TensorProto &tensor, const std::string &what) const;
  std::shared_ptr<MappedFile> map(const std::string &file, const std::string &what) const;

  std::string modelPath, folder;
  std::shared_ptr<const onnx::ModelProto> model;
  std::map<std::string, const onnx::TensorProto *> tensors;
  mutable std::map<std::string, std::shared_ptr<MappedFile>> mapped;
};

} // namespace msamp::frontend

#endif
