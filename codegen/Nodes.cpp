// Walks locations: names are nodes, the metadata of fused locations says which phase made the op.
#include "codegen/Nodes.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

namespace msamp::codegen {
using namespace mlir;

namespace {
void collect(Location loc, size_t limit, Nodes &nodes) {
  llvm::TypeSwitch<LocationAttr>(loc)
      .Case<NameLoc>([&](NameLoc name) {
        std::string text = name.getName().str();
        if (!text.empty() && nodes.names.size() < limit && !llvm::is_contained(nodes.names, text))
          nodes.names.push_back(text);
        collect(name.getChildLoc(), limit, nodes);
      })
      .Case<FusedLoc>([&](FusedLoc fused) {
        if (auto phase = dyn_cast_or_null<StringAttr>(fused.getMetadata()))
          nodes.backward |= phase.getValue() == "autodiff" || phase.getValue() == "recompute";
        for (Location part : fused.getLocations())
          collect(part, limit, nodes);
      })
      .Case<CallSiteLoc>([&](CallSiteLoc call) {
        collect(call.getCallee(), limit, nodes);
        collect(call.getCaller(), limit, nodes);
      })
      .Default([](LocationAttr) {});
}
} // namespace

Nodes nodesOf(Location loc, size_t limit) {
  Nodes nodes;
  collect(loc, limit, nodes);
  return nodes;
}

} // namespace msamp::codegen
