// Which initializers a training step may change, and what each of them does in the model.
#ifndef MSAMP_FRONTEND_ROLES_H
#define MSAMP_FRONTEND_ROLES_H

#include "ir/Msamp/Msamp.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
} // namespace onnx

namespace msamp::frontend {

struct InitializerType {
  int type = 0;
  std::vector<int64_t> dims;
};
using InitializerTypes = std::map<std::string, InitializerType>;

// Exporters keep the dotted names of a module's parameters and make up plain ones for their own constants.
bool isNamedByModule(const std::string &initializer);

using Roles = std::map<std::string, ParameterRole>;

// Follows the uses of each floating-point initializer that meets activations: values that depend on floating-point
// inputs or on other parameters. `live` says which nodes count; `demoted` names vectors that turned out not to have the
// size of the last dimension that they are added to or multiplied with.
Roles inferRoles(const onnx::GraphProto &graph, const std::vector<bool> &live, const InitializerTypes &initializers,
                 const std::set<std::string> &demoted);

} // namespace msamp::frontend

#endif
