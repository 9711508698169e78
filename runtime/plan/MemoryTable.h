// Bytes that a plan needs on a rank, by role, without allocating them.
#ifndef MSAMP_RUNTIME_PLAN_MEMORYTABLE_H
#define MSAMP_RUNTIME_PLAN_MEMORYTABLE_H

#include "runtime/core/Types.h"
#include "runtime/plan/plan.pb.h"

namespace msamp::runtime {

// What the executor allocates for `rank` of `ranks` to train on one of the plan's targets; its arenas are as large as said here.
RoleBytes memoryOfRank(const plan::Plan &plan, const plan::Target &target, unsigned rank, unsigned ranks);

} // namespace msamp::runtime

#endif
