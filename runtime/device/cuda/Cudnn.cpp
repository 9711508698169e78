#include "runtime/device/cuda/Cudnn.h"

#include <cstdio>
#include <set>

namespace msamp::runtime::cuda {

void tellSlowerWay(const std::string &what, const std::string &why) {
  static std::set<std::string> told;
  const std::string text = what + ": " + why;
  if (told.insert(text).second)
    std::fprintf(stderr, "note: cuDNN does not take %s; it goes a slower way\n", text.c_str());
}

} // namespace msamp::runtime::cuda

#ifdef MSAMP_HAVE_CUDNN

#include <cstdlib>

#include "runtime/core/Error.h"
#include "runtime/device/cuda/CudnnGraph.h"
#include "runtime/device/cuda/Libraries.h"

namespace cudnn_frontend {
// Where the frontend looks up cuDNN's functions.
void *cudnn_dlhandle = nullptr;
} // namespace cudnn_frontend

namespace msamp::runtime::cuda {

Cudnn::~Cudnn() {
  if (handle_)
    fe::detail::destroy_handle(handle_);
}

bool Cudnn::builtIn() {
  return true;
}

cudnnContext *Cudnn::handle() {
  if (handle_)
    return handle_;
  constexpr LibraryName name = {"libcudnn.so.9", "cuDNN", "libcudnn9-cuda-13 (or the wheel nvidia-cudnn-cu13)"};
  // By name the library and its frontend look for these; what was found here before is found there.
  openLibrary({"libcudart.so.13", "CUDA's runtime, which cuDNN needs", "cuda-cudart-13-0 or the CUDA 13 toolkit"});
  ::setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", "libcudart.so.13", 0);
  tryLibrary("libnvrtc.so.13");
  tryLibrary("libcublasLt.so.13");
  fe::cudnn_dlhandle = openLibrary(name);
  auto check = [](cudnnStatus_t status, const char *call) {
    if (status != CUDNN_STATUS_SUCCESS)
      failTryAgain("{} failed: {}; cuDNN {} may not fit this GPU or its driver", call,
                   fe::detail::get_error_string(status), fe::detail::get_backend_version());
  };
  try {
    check(fe::detail::create_handle(&handle_), "cudnnCreate");
    check(fe::detail::set_stream(handle_, reinterpret_cast<cudaStream_t>(stream_)), "cudnnSetStream");
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) {
    failTryAgain("cuDNN cannot be used: {}", error.what());
  }
  return handle_;
}

} // namespace msamp::runtime::cuda

#else

#include "runtime/core/Error.h"

namespace msamp::runtime::cuda {

Cudnn::~Cudnn() = default;
bool Cudnn::builtIn() {
  return false;
}
cudnnContext *Cudnn::handle() {
  failTryAgain("msamp was built without cuDNN's headers (tools/setup.sh brings its frontend)");
}

} // namespace msamp::runtime::cuda

#endif
