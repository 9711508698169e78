#include "frontend/translate/Translator.h"

#include <algorithm>

namespace msamp::frontend {

const Ref &NodeContext::in(size_t i) const {
  if (!has(i))
    throw Invalid("input " + std::to_string(i) + " is missing");
  if (!inputs[i]->elements.empty())
    throw Unsupported("a sequence of tensors as input " + std::to_string(i));
  return inputs[i];
}

const std::vector<Ref> &NodeContext::sequence(size_t i) const {
  if (!has(i) || inputs[i]->elements.empty())
    throw Unsupported("a sequence that is empty, or that the graph gets from outside");
  return inputs[i]->elements;
}

void NodeContext::out(Ref r, size_t i) {
  if (outputs.size() <= i)
    outputs.resize(i + 1);
  outputs[i] = std::move(r);
}

const onnx::AttributeProto *NodeContext::attribute(const char *name) const {
  for (const auto &a : node.attribute())
    if (a.name() == name)
      return &a;
  return nullptr;
}

int64_t NodeContext::getInt(const char *name, int64_t fallback) const {
  auto *a = attribute(name);
  return a ? a->i() : fallback;
}

double NodeContext::getFloat(const char *name, double fallback) const {
  auto *a = attribute(name);
  return a ? a->f() : fallback;
}

std::string NodeContext::getString(const char *name, const std::string &fallback) const {
  auto *a = attribute(name);
  return a ? a->s() : fallback;
}

std::vector<int64_t> NodeContext::getInts(const char *name) const {
  auto *a = attribute(name);
  return a ? std::vector<int64_t>(a->ints().begin(), a->ints().end()) : std::vector<int64_t>();
}

std::vector<int64_t> NodeContext::knownInts(const Ref &x, const char *what) const {
  Host h = e.host(x);
  if (!h)
    throw Unsupported(std::string(what) + " is computed by the step; it must follow from shapes and constants");
  return intsOf(*h);
}

std::vector<int64_t> NodeContext::intsFrom(size_t i, const char *name, bool *given) const {
  if (given)
    *given = has(i) || attribute(name);
  return has(i) ? knownInts(inputs[i], name) : getInts(name);
}

int64_t NodeContext::axis(int64_t value, int64_t rank) const {
  if (value < -rank || value >= rank)
    throw Invalid("axis " + std::to_string(value) + " of a tensor of rank " + std::to_string(rank));
  return value < 0 ? value + rank : value;
}

Dims NodeContext::axes(std::vector<int64_t> values, int64_t rank) const {
  for (int64_t &v : values)
    v = axis(v, rank);
  std::sort(values.begin(), values.end());
  if (std::adjacent_find(values.begin(), values.end()) != values.end())
    throw Invalid("an axis is given twice");
  return values;
}

Dims withOnes(const Dims &dims, const Dims &axes) {
  Dims out = dims;
  for (int64_t a : axes)
    out[a] = 1;
  return out;
}

std::vector<Ref> partsOf(Emitter &e, const Ref &x, int64_t axis, const std::vector<int64_t> &sizes) {
  const int64_t n = x->dims[axis];
  int64_t left = n;
  for (int64_t size : sizes)
    left = size < 0 || size > left ? -1 : left - size;
  if (left != 0)
    throw Invalid("parts of sizes " + printDims(sizes) + " for a dimension of " + std::to_string(n));
  std::vector<Ref> parts;
  Dims at(x->rank(), 0), by(x->rank(), 1), dims = x->dims;
  for (int64_t size : sizes) {
    dims[axis] = size;
    parts.push_back(e.slice(x, at, by, dims));
    at[axis] += size;
  }
  return parts;
}

const TranslatorTable &translators() {
  static const TranslatorTable table = [] {
    TranslatorTable t;
    addPointwise(t);
    addActivations(t);
    addStructure(t);
    addSequences(t);
    addGenerators(t);
    addIndexing(t);
    addReductions(t);
    addMatMul(t);
    addNorms(t);
    addAttention(t);
    addConvolution(t);
    addPooling(t);
    addResize(t);
    addEinsum(t);
    return t;
  }();
  return table;
}

} // namespace msamp::frontend
