// Shared modules that lie in lib/ beside the program's folder.
#ifndef MSAMP_RUNTIME_CORE_MODULES_H
#define MSAMP_RUNTIME_CORE_MODULES_H

#include <string>

namespace msamp::runtime {

// Loads ../lib/NAME.so as seen from the running program and returns the address of `symbol` in it. Never unloaded. Error
// 70 that says where it was looked for.
void *moduleSymbol(const std::string &name, const std::string &symbol);

// Whether there is such a module.
bool hasModule(const std::string &name);

} // namespace msamp::runtime

#endif
