// NVIDIA's libraries, loaded when they are first needed: programs start without them, and say which one is missing.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_LIBRARIES_H
#define MSAMP_RUNTIME_DEVICE_CUDA_LIBRARIES_H

#include <type_traits>

namespace msamp::runtime::cuda {

struct LibraryName {
  const char *file;    // libcublasLt.so.13
  const char *name;    // cuBLASLt, for people
  const char *package; // what brings it
};

// By its bare name (loader path), then in CUDA_HOME/lib64 and /usr/local/cuda/lib64. Error 75 if it is nowhere.
void *openLibrary(const LibraryName &library);
// The same without an error: null. For what other libraries look for by name.
void *tryLibrary(const char *file);

// A function of it; error 75 that asks for a newer one if it has none of that name.
void *librarySymbol(void *handle, const LibraryName &library, const char *symbol);

template <class Function>
void bindSymbol(Function &function, void *handle, const LibraryName &library, const char *symbol) {
  function = reinterpret_cast<Function>(librarySymbol(handle, library, symbol));
}

} // namespace msamp::runtime::cuda

#endif
