#include "frontend/BindDims.h"

#include "frontend/ElementType.h"
#include "frontend/Error.h"

#include <onnx/onnx_pb.h>

#include <vector>

namespace msamp::frontend {
namespace {

std::string join(const std::vector<std::string> &names, const char *separator) {
  std::string s;
  for (const auto &n : names)
    s += (s.empty() ? "" : separator) + n;
  return s;
}

// The name by which a dimension is bound; empty if the file gives its size.
std::string symbolOf(const onnx::ValueInfoProto &value, int axis) {
  const auto &d = value.type().tensor_type().shape().dim(axis);
  if (d.has_dim_value() && d.dim_value() > 0)
    return "";
  if (d.has_dim_param() && !d.dim_param().empty())
    return d.dim_param();
  return value.name() + "[" + std::to_string(axis) + "]";
}

} // namespace

std::map<std::string, InputType> bindInputs(const std::string &path, const onnx::GraphProto &graph,
                                            const std::set<std::string> &initializers,
                                            const std::map<std::string, int64_t> &sizes) {
  for (const auto &[name, size] : sizes)
    if (size < 1 || size > INT32_MAX)
      throw Error(kUsage, "--dim " + name + "=" + std::to_string(size) + ": a dimension is between 1 and " +
                              std::to_string(INT32_MAX));

  std::map<std::string, InputType> types;
  std::map<std::string, std::string> symbols; // and where they occur
  std::vector<std::string> unbound;
  for (const auto &input : graph.input()) {
    if (initializers.count(input.name()))
      continue;
    if (!input.type().has_tensor_type())
      throw Error(kBadData, path + ": input " + input.name() + " is not a tensor");
    const auto &t = input.type().tensor_type();
    if (!elementSize(t.elem_type()))
      throw Error(kBadData, path + ": input " + input.name() + " has element type " + elementName(t.elem_type()) +
                                ", which is not supported");
    if (!t.has_shape())
      throw Error(kBadData, path + ": input " + input.name() + " has no shape; export the model with one");
    InputType &type = types[input.name()];
    type.type = t.elem_type();
    for (int d = 0; d < t.shape().dim_size(); ++d) {
      std::string symbol = symbolOf(input, d);
      if (symbol.empty()) {
        type.dims.push_back(t.shape().dim(d).dim_value());
        continue;
      }
      bool first = symbols.try_emplace(symbol, input.name() + "[" + std::to_string(d) + "]").second;
      auto it = sizes.find(symbol);
      if (it == sizes.end() && first)
        unbound.push_back(symbol);
      type.dims.push_back(it == sizes.end() ? 1 : it->second);
    }
  }

  std::set<std::string> outputSymbols;
  for (const auto &output : graph.output())
    for (int d = 0; d < output.type().tensor_type().shape().dim_size(); ++d)
      outputSymbols.insert(symbolOf(output, d));
  std::vector<std::string> unknown, names;
  for (const auto &[symbol, where] : symbols)
    names.push_back(symbol + " (" + where + ")");
  for (const auto &[name, size] : sizes)
    if (!symbols.count(name) && !outputSymbols.count(name))
      unknown.push_back(name);
  if (!unknown.empty())
    throw Error(kUsage, path + " has no dimension named " + join(unknown, ", ") + " to bind with --dim; it has " +
                            (names.empty() ? "none" : join(names, ", ")));
  if (!unbound.empty()) {
    std::vector<std::string> where, flags;
    for (const auto &symbol : unbound) {
      where.push_back(symbol + " (" + symbols[symbol] + ")");
      flags.push_back("--dim " + symbol + "=SIZE");
    }
    throw Error(kUsage, path + ": dimensions without a size: " + join(where, ", ") + "; give " + join(flags, " "));
  }
  return types;
}

void checkOutput(const std::string &path, const onnx::GraphProto &graph, int index, const Dims &dims,
                 const std::map<std::string, int64_t> &sizes) {
  const auto &output = graph.output(index);
  const auto &t = output.type().tensor_type();
  if (!t.has_shape())
    return;
  if (t.shape().dim_size() != static_cast<int>(dims.size()))
    throw Error(kBadData, path + ": output " + output.name() + " is declared with rank " +
                              std::to_string(t.shape().dim_size()) + ", but its shape is " + printDims(dims));
  for (int d = 0; d < t.shape().dim_size(); ++d) {
    std::string symbol = symbolOf(output, d);
    auto it = sizes.find(symbol);
    if (it != sizes.end() && it->second != dims[d])
      throw Error(kUsage, "--dim " + symbol + "=" + std::to_string(it->second) + ": dimension " + std::to_string(d) +
                              " of output " + output.name() + " is " + std::to_string(dims[d]));
  }
}

} // namespace msamp::frontend
