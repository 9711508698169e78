// A plan as one JSON document; the text form is printed from it.
#ifndef MSAMP_TOOLS_INSPECT_DESCRIBE_H
#define MSAMP_TOOLS_INSPECT_DESCRIBE_H

#include <nlohmann/json.hpp>
#include <ostream>

#include "runtime/plan/PlanIO.h"

namespace msamp::inspect {

// Objects keep the order in which they are described.
using Json = nlohmann::ordered_json;

Json describe(const runtime::LoadedPlan &plan, unsigned ranks);

void printText(const Json &description, std::ostream &out);

} // namespace msamp::inspect

#endif
