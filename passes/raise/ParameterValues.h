// Where passes read the values of a model's initializers, without knowing how the model is stored.
#ifndef MSAMP_PASSES_RAISE_PARAMETERVALUES_H
#define MSAMP_PASSES_RAISE_PARAMETERVALUES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <functional>
#include <memory>
#include <vector>

namespace msamp {

class ParameterValues {
public:
  virtual ~ParameterValues() = default;
  /// The FP32 values of an initializer in row-major order; empty where they are not known. They lie in `storage` or
  /// in memory that lives as long as this object.
  virtual llvm::ArrayRef<float> read(llvm::StringRef onnxName, std::vector<float> &storage) = 0;
};

/// Opens the values when a pass first needs them.
using OpenParameterValues = std::function<std::shared_ptr<ParameterValues>()>;

} // namespace msamp
#endif
