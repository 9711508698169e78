// Sequences of tensors, as exporters write the parts of a split: known lists while the graph is translated.
#include "frontend/translate/Translator.h"

#include <algorithm>

namespace msamp::frontend {
namespace {

void giveSequence(NodeContext &c, std::vector<Ref> elements) {
  if (elements.empty())
    throw Unsupported("an empty sequence");
  auto sequence = std::make_shared<Tensor>();
  sequence->elements = std::move(elements);
  c.out(sequence);
}

// Parts of one size (the last may be smaller), of given sizes, or single positions.
void splitToSequence(NodeContext &c) {
  Ref x = c.in(0);
  const int64_t axis = c.axis(c.getInt("axis", 0), x->rank()), n = x->dims[axis];
  std::vector<int64_t> sizes;
  if (c.has(1) && c.in(1)->rank() > 0) {
    sizes = c.knownInts(c.in(1), "split");
  } else {
    const int64_t size = c.has(1) ? c.knownInts(c.in(1), "split").at(0) : 1;
    if (size < 1)
      throw Invalid("parts of size " + std::to_string(size));
    for (int64_t at = 0; at < n; at += size)
      sizes.push_back(std::min(size, n - at));
  }
  std::vector<Ref> parts = partsOf(c.e, x, axis, sizes);
  if (!c.has(1) && !c.getInt("keepdims", 1)) {
    Dims without = x->dims;
    without.erase(without.begin() + axis);
    for (Ref &part : parts)
      part = c.e.reshape(part, without);
  }
  giveSequence(c, parts);
}

void sequenceAt(NodeContext &c) {
  const std::vector<Ref> &elements = c.sequence(0);
  c.out(elements[c.axis(c.knownInts(c.in(1), "position").at(0), static_cast<int64_t>(elements.size()))]);
}

void sequenceConstruct(NodeContext &c) {
  std::vector<Ref> elements;
  for (size_t i = 0; i < c.inputCount(); ++i)
    elements.push_back(c.in(i));
  giveSequence(c, elements);
}

void concatFromSequence(NodeContext &c) {
  std::vector<Ref> elements = c.sequence(0);
  const bool stacks = c.getInt("new_axis", 0);
  const int64_t axis = c.axis(c.getInt("axis", 0), elements[0]->rank() + stacks);
  if (stacks)
    for (Ref &x : elements) {
      Dims dims = x->dims;
      dims.insert(dims.begin() + axis, 1);
      x = c.e.reshape(x, dims);
    }
  c.out(c.e.concat(elements, axis));
}

} // namespace

void addSequences(TranslatorTable &table) {
  table["SplitToSequence"] = splitToSequence;
  table["SequenceAt"] = sequenceAt;
  table["SequenceConstruct"] = sequenceConstruct;
  table["ConcatFromSequence"] = concatFromSequence;
}

} // namespace msamp::frontend
