// Gives every dimension of the graph's inputs a size.
#ifndef MSAMP_FRONTEND_BINDDIMS_H
#define MSAMP_FRONTEND_BINDDIMS_H

#include "frontend/HostTensor.h"

#include <map>
#include <set>
#include <string>

namespace onnx {
class GraphProto;
}

namespace msamp::frontend {

struct InputType {
  int type = 0;
  Dims dims;
};

// Input types by name, of the inputs that are not among `initializers`. Throws Error: kUsage if a symbol is unbound, a
// size is not positive or a name is not in the file; kBadData if an input is no tensor of a supported type.
std::map<std::string, InputType> bindInputs(const std::string &path, const onnx::GraphProto &graph,
                                            const std::set<std::string> &initializers,
                                            const std::map<std::string, int64_t> &sizes);

// Throws Error (kUsage) if a symbol that only outputs have was bound to another size than the output got.
void checkOutput(const std::string &path, const onnx::GraphProto &graph, int index, const Dims &dims,
                 const std::map<std::string, int64_t> &sizes);

} // namespace msamp::frontend

#endif
