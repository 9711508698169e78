// Values of a model's initializers as FP32, from whatever float type the file holds.
#ifndef MSAMP_CODEGEN_MODELWEIGHTS_H
#define MSAMP_CODEGEN_MODELWEIGHTS_H

#include "frontend/WeightSource.h"
#include "passes/raise/ParameterValues.h"

namespace msamp::codegen {

class ModelWeights : public ParameterValues {
public:
  // Opens nothing yet.
  explicit ModelWeights(std::string model) : model(std::move(model)) {}

  // Empty where the file has no such initializer, or not of a float type.
  llvm::ArrayRef<float> read(llvm::StringRef onnxName, std::vector<float> &storage) override;

private:
  std::string model;
  std::unique_ptr<frontend::WeightSource> source;
  std::vector<std::shared_ptr<const void>> keepAlive; // of what read has returned without a copy
};

} // namespace msamp::codegen

#endif
