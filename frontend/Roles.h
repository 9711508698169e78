// Which initializers a training step may change, and what each of them does in the model.
#ifndef MSAMP_FRONTEND_ROLES_H
#define MSAMP_FRONTEND_ROLES_H

#include "frontend/ExporterNotes.h"
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
  ExporterNote note = {};

  // One of the module's own that its use may train, though it could be a constant by that use alone.
  bool mayBeLearned() const {
    return note.kind == ExporterNote::Kind::Module || note.kind == ExporterNote::Kind::Parameter;
  }
};
using InitializerTypes = std::map<std::string, InitializerType>;

struct Role {
  ParameterRole role;
  bool byUse = true; // no: by the exporter's note alone, which does not tell how it is to be drawn
};
inline bool isStatistic(ParameterRole role) { return role == ParameterRole::Mean || role == ParameterRole::Variance; }
using Roles = std::map<std::string, Role>;

// Follows the uses of each floating-point initializer that meets activations: values that depend on floating-point
// inputs or on other parameters. `live` says which nodes count; `demoted` names vectors that turned out not to have the
// size of the last dimension that they are added to or multiplied with. What the exporter noted goes before the use:
// parameters have a role whatever they are used for, and constants none, but for running statistics.
Roles inferRoles(const onnx::GraphProto &graph, const std::vector<bool> &live, const InitializerTypes &initializers,
                 const std::set<std::string> &demoted);

} // namespace msamp::frontend

#endif
