// Runs the phases that the command line asks for.
#ifndef MSAMP_TOOLS_MSAMPC_DRIVER_H
#define MSAMP_TOOLS_MSAMPC_DRIVER_H

#include "tools/msampc/Options.h"

namespace msamp::msampc {

// Returns the exit code; everything has been said on stderr.
int compile(Options options);

} // namespace msamp::msampc

#endif
