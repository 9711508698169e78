// Models for the tests: ONNX text to a file in a folder of its own, imported on request.
#ifndef MSAMP_TESTS_UNIT_FRONTEND_MODELFILE_H
#define MSAMP_TESTS_UNIT_FRONTEND_MODELFILE_H

#include "frontend/Import.h"

#include "ir/Msamp/Msamp.h"

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace msamp::frontend::test {

inline onnx::ModelProto parseText(const std::string &text) {
  onnx::ModelProto model;
  auto status = onnx::OnnxParser::Parse(model, text.c_str());
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

// The graph `body` with the usual header.
inline std::string withHeader(const std::string &body, int opset = 18) {
  return "<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) + "]>\n" + body;
}

class ModelFile {
public:
  ModelFile() {
    char name[] = "/tmp/msamp_frontend_XXXXXX";
    folder = mkdtemp(name);
  }
  explicit ModelFile(const std::string &text) : ModelFile(parseText(text)) {}
  explicit ModelFile(const onnx::ModelProto &model) : ModelFile() { write(model.SerializeAsString()); }
  ~ModelFile() { std::filesystem::remove_all(folder); }
  ModelFile(const ModelFile &) = delete;

  void write(const std::string &bytes, const std::string &name = "model.onnx") const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  std::string path() const { return (folder / "model.onnx").string(); }

  std::filesystem::path folder;
};

struct Imported {
  explicit Imported(const std::string &path, const ImportOptions &options = {})
      : module(importModel(path, options, context)) {}
  explicit Imported(const ModelFile &file, const ImportOptions &options = {}) : Imported(file.path(), options) {}

  mlir::func::FuncOp forward() { return module->lookupSymbol<mlir::func::FuncOp>("forward"); }
  // Role of each parameter by name, "frozen" appended if it is not trained.
  std::map<std::string, std::string> parameters() {
    std::map<std::string, std::string> out;
    module->walk([&](ParameterOp p) {
      out[p.getSymName().str()] = stringifyParameterRole(p.getRole()).str() + (p.getTrained() ? "" : " frozen");
    });
    return out;
  }
  template <class OpTy>
  int count() {
    int n = 0;
    module->walk([&](OpTy) { ++n; });
    return n;
  }
  template <class OpTy>
  OpTy first() {
    OpTy found;
    module->walk([&](OpTy op) {
      if (!found)
        found = op;
    });
    return found;
  }
  mlir::RankedTensorType result(unsigned i = 0) {
    return mlir::cast<mlir::RankedTensorType>(forward().getResultTypes()[i]);
  }
  std::vector<int64_t> shape(unsigned i = 0) { return {result(i).getShape().begin(), result(i).getShape().end()}; }
  // Values of an output that was folded.
  std::vector<double> folded(unsigned i = 0) {
    auto constant = forward().getBody().front().getTerminator()->getOperand(i).getDefiningOp<mlir::arith::ConstantOp>();
    std::vector<double> out;
    if (!constant) {
      ADD_FAILURE() << "the output is not a constant";
      return out;
    }
    auto dense = mlir::cast<mlir::DenseElementsAttr>(constant.getValue());
    if (mlir::isa<mlir::FloatType>(dense.getElementType()))
      for (llvm::APFloat v : dense.getValues<llvm::APFloat>())
        out.push_back(v.convertToDouble());
    else
      for (llvm::APInt v : dense.getValues<llvm::APInt>())
        out.push_back(v.getBitWidth() == 1 ? double(v.getZExtValue()) : double(v.getSExtValue()));
    return out;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

// Imports and expects failure with the code and each of the texts in the message.
inline std::string expectError(const std::string &path, int exitCode, const std::vector<std::string> &texts,
                               const ImportOptions &options = {}) {
  try {
    Imported imported(path, options);
  } catch (const Error &e) {
    EXPECT_EQ(e.exitCode, exitCode) << e.what();
    for (const auto &text : texts)
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << text << " is not in: " << e.what();
    return e.what();
  }
  ADD_FAILURE() << path << " was imported";
  return "";
}

} // namespace msamp::frontend::test

#endif
