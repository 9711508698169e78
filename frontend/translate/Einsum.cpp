// Sums of products of tensors by the names of their dimensions: two operands after the other, each time a matrix
// product.
#include "frontend/EinsumEquation.h"
#include "frontend/ElementType.h"
#include "frontend/translate/Translator.h"

#include <algorithm>
#include <functional>
#include <map>

namespace msamp::frontend {
namespace {

// Letters name themselves; dimensions that an ellipsis stands for have numbers from 256 on, the last one the smallest.
using Labels = std::vector<int>;
constexpr int firstOfEllipsis = 256;

// With numbers for the `hidden` dimensions of the ellipsis.
Labels labelsOf(const EinsumTerm &term, int64_t hidden) {
  Labels labels(term.before.begin(), term.before.end());
  for (int64_t i = hidden; i-- > 0;)
    labels.push_back(firstOfEllipsis + static_cast<int>(i));
  labels.insert(labels.end(), term.after.begin(), term.after.end());
  return labels;
}

bool holds(const Labels &labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

struct Operand {
  Ref value;
  Labels labels;
};

// Without the dimensions whose labels are not to be kept.
Operand sumOut(Emitter &e, const Operand &x, const std::function<bool(int)> &keep) {
  Dims axes;
  Labels labels;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (keep(x.labels[i]))
      labels.push_back(x.labels[i]);
    else
      axes.push_back(static_cast<int64_t>(i));
  return axes.empty() ? x : Operand{e.reduce(Reduction::Sum, x.value, axes), labels};
}

Ref inOrder(Emitter &e, const Operand &x, const Labels &labels) {
  Dims perm;
  for (int label : labels)
    perm.push_back(std::find(x.labels.begin(), x.labels.end(), label) - x.labels.begin());
  return std::is_sorted(perm.begin(), perm.end()) ? x.value : e.transpose(x.value, perm);
}

Labels joined(std::initializer_list<Labels> lists) {
  Labels all;
  for (const Labels &list : lists)
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

// The product of two operands, summed over the labels of both that are not to be kept.
Operand contract(Emitter &e, Operand x, Operand y, const std::function<bool(int)> &keep) {
  x = sumOut(e, x, [&](int label) { return keep(label) || holds(y.labels, label); });
  y = sumOut(e, y, [&](int label) { return keep(label) || holds(x.labels, label); });
  Labels batch, summed, ofX, ofY;
  std::map<int, int64_t> sizes;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    int label = x.labels[i];
    sizes[label] = x.value->dims[i];
    (!holds(y.labels, label) ? ofX : keep(label) ? batch : summed).push_back(label);
  }
  for (size_t i = 0; i < y.labels.size(); ++i)
    if (int label = y.labels[i]; !holds(x.labels, label)) {
      sizes[label] = y.value->dims[i];
      ofY.push_back(label);
    }
  auto dimsOf = [&](const Labels &labels) {
    Dims dims;
    for (int label : labels)
      dims.push_back(sizes.at(label));
    return dims;
  };
  auto shaped = [&](const Ref &value, const Labels &rows, const Labels &columns) {
    Dims dims = dimsOf(batch);
    dims.push_back(countElements(dimsOf(rows)));
    dims.push_back(countElements(dimsOf(columns)));
    return e.reshape(value, dims);
  };
  const Labels labels = joined({batch, ofX, ofY});
  if (summed.empty()) { // nothing but broadcasts
    Dims dims = dimsOf(joined({batch, ofX}));
    dims.resize(dims.size() + ofY.size(), 1);
    Ref a = e.reshape(inOrder(e, x, joined({batch, ofX})), dims);
    dims = dimsOf(batch);
    dims.resize(dims.size() + ofX.size(), 1);
    for (int64_t size : dimsOf(ofY))
      dims.push_back(size);
    return {e.mul(a, e.reshape(inOrder(e, y, joined({batch, ofY})), dims)), labels};
  }
  // An operand that has its sums before its rows is a transposed matrix as it is.
  const bool turnedX = x.labels == joined({batch, summed, ofX}), turnedY = y.labels == joined({batch, ofY, summed});
  Ref a = turnedX ? shaped(x.value, summed, ofX) : shaped(inOrder(e, x, joined({batch, ofX, summed})), ofX, summed);
  Ref b = turnedY ? shaped(y.value, ofY, summed) : shaped(inOrder(e, y, joined({batch, summed, ofY})), summed, ofY);
  return {e.reshape(e.matmul(a, b, turnedX, turnedY), dimsOf(labels)), labels};
}

void einsum(NodeContext &c) {
  Emitter &e = c.e;
  EinsumEquation equation = parseEinsum(c.getString("equation", ""));
  if (equation.operands.size() != c.inputCount())
    throw Invalid("the equation is of " + std::to_string(equation.operands.size()) + " operands, of which there are " +
                  std::to_string(c.inputCount()));
  std::vector<Operand> operands;
  std::map<int, int64_t> sizes;
  std::map<int, int> uses;
  int64_t mostHidden = 0;
  for (size_t i = 0; i < c.inputCount(); ++i) {
    const EinsumTerm &term = equation.operands[i];
    Ref x = c.in(i);
    const int64_t hidden = x->rank() - static_cast<int64_t>(term.before.size() + term.after.size());
    if (hidden < 0 || (hidden > 0 && !term.ellipsis))
      throw Invalid("operand " + std::to_string(i) + " of shape " + printDims(x->dims) + " does not fit the equation");
    if (!isFloat(x->type))
      throw Unsupported("operands that are no floating-point numbers");
    mostHidden = std::max(mostHidden, hidden);
    operands.push_back({x, labelsOf(term, hidden)});
    const Labels &labels = operands.back().labels;
    for (size_t d = 0; d < labels.size(); ++d) {
      if (std::count(labels.begin(), labels.end(), labels[d]) > 1)
        throw Unsupported("a diagonal: an operand names a dimension twice");
      int64_t &size = sizes.try_emplace(labels[d], x->dims[d]).first->second;
      if (size != x->dims[d] && size != 1 && x->dims[d] != 1)
        throw Invalid("operand " + std::to_string(i) + " of shape " + printDims(x->dims) + " has another size for \"" +
                      (labels[d] < firstOfEllipsis ? std::string(1, static_cast<char>(labels[d])) : "...") +
                      "\" than one before it, " + std::to_string(size));
      size = std::max(size, x->dims[d]);
      ++uses[labels[d]];
    }
  }
  Labels result;
  if (equation.result) {
    result = labelsOf(*equation.result, equation.result->ellipsis ? mostHidden : 0);
  } else { // what is named once, in the order of the alphabet, behind the ellipsis
    result = labelsOf({}, mostHidden);
    for (auto [label, count] : uses)
      if (label < firstOfEllipsis && count == 1)
        result.push_back(label);
  }
  for (int label : result)
    if (!sizes.count(label) || std::count(result.begin(), result.end(), label) > 1)
      throw Invalid("the result of the equation has a dimension twice, or one that no operand has");
  // Sizes of 1 that others are not stand for no dimension: they are broadcast.
  for (Operand &x : operands) {
    Dims dims;
    Labels labels;
    for (size_t d = 0; d < x.labels.size(); ++d)
      if (x.value->dims[d] == sizes.at(x.labels[d])) {
        dims.push_back(x.value->dims[d]);
        labels.push_back(x.labels[d]);
      }
    x = {e.reshape(x.value, dims), labels};
  }
  Operand all = operands[0];
  for (size_t i = 1; i < operands.size(); ++i)
    all = contract(e, all, operands[i], [&](int label) {
      return holds(result, label) || std::any_of(operands.begin() + static_cast<int64_t>(i) + 1, operands.end(),
                                                 [&](const Operand &later) { return holds(later.labels, label); });
    });
  all = sumOut(e, all, [&](int label) { return holds(result, label); });
  c.out(inOrder(e, all, result));
}

} // namespace

void addEinsum(TranslatorTable &table) {
  table["Einsum"] = einsum;
}

} // namespace msamp::frontend
