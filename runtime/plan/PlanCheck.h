// Structural checks of a plan: every index, type and extent that the executor relies on.
#ifndef MSAMP_RUNTIME_PLAN_PLANCHECK_H
#define MSAMP_RUNTIME_PLAN_PLANCHECK_H

#include <string>

#include "runtime/plan/plan.pb.h"

namespace msamp::runtime {

// Error 65 that names the program, step and operand at fault. `file` is for the message.
void checkPlan(const plan::Plan &plan, const std::string &file);

} // namespace msamp::runtime

#endif
