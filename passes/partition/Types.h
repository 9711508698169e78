// Storage types as MLIR element types.
#ifndef MSAMP_PASSES_PARTITION_TYPES_H
#define MSAMP_PASSES_PARTITION_TYPES_H

#include "ir/Msamp/Msamp.h"
#include "passes/partition/StateClasses.h"

namespace msamp::partition {

// Null for None.
inline mlir::FloatType elementOf(mlir::MLIRContext *context, Storage type) {
  switch (type) {
  case Storage::F32: return mlir::Float32Type::get(context);
  case Storage::BF16: return mlir::BFloat16Type::get(context);
  case Storage::F16: return mlir::Float16Type::get(context);
  case Storage::E4M3: return mlir::Float8E4M3FNType::get(context);
  case Storage::E5M2: return mlir::Float8E5M2Type::get(context);
  case Storage::None: return {};
  }
  return {};
}

// What the phases wrote into the module about the step.
struct StepSettings {
  std::string loss, level = "fp32", recipe = "delayed", optimizer = "adamw";
  int64_t accumulate = 1, zero = 0;

  explicit StepSettings(mlir::ModuleOp module) {
    auto text = [&](llvm::StringRef name, std::string &into) {
      if (auto attr = module->getAttrOfType<mlir::StringAttr>(name)) into = attr.getValue().str();
    };
    auto number = [&](llvm::StringRef name, int64_t &into) {
      if (auto attr = module->getAttrOfType<mlir::IntegerAttr>(name)) into = attr.getInt();
    };
    text("msamp.loss", loss);
    text("msamp.level", level);
    text("msamp.recipe", recipe);
    text("msamp.optimizer", optimizer);
    number("msamp.accumulate", accumulate);
    number("msamp.zero", zero);
  }
  ClassStorage storage(llvm::StringRef name) const { return storageOf(level, std::string_view(name), optimizer, accumulate); }
  ClassStorage storage(ParameterOp param) const { return storage(className(param)); }

  // plain, scaled, frozen or statistics; plain too for a trained parameter before precision.
  static llvm::StringRef className(ParameterOp param) {
    if (param.isStatistic()) return "statistics";
    if (!param.getTrained()) return "frozen";
    return param.getStateClass() ? stringifyStateClass(*param.getStateClass()) : llvm::StringRef("plain");
  }
};

} // namespace msamp::partition

#endif
