#include "runtime/device/cuda/Libraries.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "runtime/core/Error.h"

namespace msamp::runtime::cuda {

namespace {

std::vector<std::string> places(const char *file) {
  std::vector<std::string> all = {file};
  if (const char *home = std::getenv("CUDA_HOME"); home && *home)
    all.push_back(std::string(home) + "/lib64/" + file);
  all.push_back(std::string("/usr/local/cuda/lib64/") + file);
  return all;
}

} // namespace

void *tryLibrary(const char *file) {
  for (const std::string &place : places(file))
    if (void *handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL))
      return handle;
  return nullptr;
}

void *openLibrary(const LibraryName &library) {
  std::string tried;
  for (const std::string &place : places(library.file)) {
    if (void *handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL))
      return handle;
    const char *reason = ::dlerror();
    tried += std::string("\n  ") + (reason ? reason : place.c_str());
  }
  failTryAgain(
      "{} is not here: {} was looked for in the loader's path, CUDA_HOME/lib64 and /usr/local/cuda/lib64; install {}, "
      "or set CUDA_HOME or LD_LIBRARY_PATH{}",
      library.name, library.file, library.package, tried);
}

void *librarySymbol(void *handle, const LibraryName &library, const char *symbol) {
  void *address = ::dlsym(handle, symbol);
  if (!address)
    failTryAgain("{} ({}) has no function {}: it is too old; install a newer {}", library.name, library.file, symbol,
                 library.package);
  return address;
}

} // namespace msamp::runtime::cuda
