#include "runtime/core/Modules.h"

#include <dlfcn.h>

#include <filesystem>

#include "runtime/core/Error.h"

namespace msamp::runtime {

static std::filesystem::path modulePath(const std::string &name) {
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "lib" / (name + ".so");
}

bool hasModule(const std::string &name) {
  std::error_code error;
  return std::filesystem::exists(modulePath(name), error);
}

void *moduleSymbol(const std::string &name, const std::string &symbol) {
  const std::filesystem::path path = modulePath(name);
  void *module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module) {
    const char *reason = ::dlerror();
    failInternal("cannot load the module {}: {}", path.string(), reason ? reason : "unknown reason");
  }
  void *address = ::dlsym(module, symbol.c_str());
  if (!address)
    failInternal("the module {} has no symbol {}; it belongs to another version of msamp", path.string(), symbol);
  return address;
}

} // namespace msamp::runtime
