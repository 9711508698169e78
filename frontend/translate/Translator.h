// What a translator of an ONNX op sees, and the table of translators by op type.
#ifndef MSAMP_FRONTEND_TRANSLATE_TRANSLATOR_H
#define MSAMP_FRONTEND_TRANSLATE_TRANSLATOR_H

#include "frontend/Emitter.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <string>

namespace msamp::frontend {

// One node while it is translated. Optional inputs that are absent are null.
class NodeContext {
public:
  NodeContext(Emitter &e, const onnx::NodeProto &node, int64_t opset, const WeightSource &weights)
      : e(e), node(node), opset(opset), weights(weights) {}

  Emitter &e;
  const onnx::NodeProto &node;
  const int64_t opset;
  const WeightSource &weights;
  std::vector<Ref> inputs, outputs;

  size_t inputCount() const { return inputs.size(); }
  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  const Ref &in(size_t i) const;
  const std::vector<Ref> &sequence(size_t i) const;
  Ref maybe(size_t i) const { return has(i) ? inputs[i] : Ref(); }
  // Whether somebody may read output i.
  bool wants(size_t i) const { return i < size_t(node.output_size()) && !node.output(i).empty(); }
  void out(Ref r, size_t i = 0);

  const onnx::AttributeProto *attribute(const char *name) const;
  int64_t getInt(const char *name, int64_t fallback) const;
  double getFloat(const char *name, double fallback) const;
  std::string getString(const char *name, const std::string &fallback) const;
  std::vector<int64_t> getInts(const char *name) const;

  // Values of an integer operand that has to be known (a shape, axes).
  std::vector<int64_t> knownInts(const Ref &x, const char *what) const;
  // The same from input `i`, or from an attribute in older opsets; `given` says whether there are any.
  std::vector<int64_t> intsFrom(size_t i, const char *attribute, bool *given = nullptr) const;
  int64_t axis(int64_t value, int64_t rank) const;
  // Axes made non-negative and ascending.
  Dims axes(std::vector<int64_t> values, int64_t rank) const;
};

using Translate = void (*)(NodeContext &);
using TranslatorTable = std::map<std::string, Translate>;

// Of the default ONNX domain.
const TranslatorTable &translators();

void addPointwise(TranslatorTable &table);
void addActivations(TranslatorTable &table);
void addStructure(TranslatorTable &table);
void addSequences(TranslatorTable &table);
void addGenerators(TranslatorTable &table);
void addIndexing(TranslatorTable &table);
void addReductions(TranslatorTable &table);
void addMatMul(TranslatorTable &table);
void addNorms(TranslatorTable &table);
void addAttention(TranslatorTable &table);
void addConvolution(TranslatorTable &table);
void addPooling(TranslatorTable &table);
void addResize(TranslatorTable &table);
void addEinsum(TranslatorTable &table);

// Shared between families.
Dims withOnes(const Dims &dims, const Dims &axes); // the reduced shape with keepdims
// A tensor in parts of these sizes along an axis.
std::vector<Ref> partsOf(Emitter &e, const Ref &x, int64_t axis, const std::vector<int64_t> &sizes);

} // namespace msamp::frontend

#endif
