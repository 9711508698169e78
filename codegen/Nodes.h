// ONNX nodes that an operation comes from, read off its location.
#ifndef MSAMP_CODEGEN_NODES_H
#define MSAMP_CODEGEN_NODES_H

#include "mlir/IR/Location.h"

#include <string>
#include <vector>

namespace msamp::codegen {

struct Nodes {
  std::vector<std::string> names; // each once, in the order of the location
  bool backward = false;          // some of it is a gradient or a value rebuilt for one
};

// At most `limit` names.
Nodes nodesOf(mlir::Location loc, size_t limit);

} // namespace msamp::codegen

#endif
