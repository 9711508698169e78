// cuBLASLt's functions, loaded when a product is first asked for.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_CUBLASLT_H
#define MSAMP_RUNTIME_DEVICE_CUDA_CUBLASLT_H

#include <cublasLt.h>

namespace msamp::runtime::cuda {

#define MSAMP_CUBLASLT_FUNCTIONS(X)                                                                                    \
  X(cublasLtCreate)                                                                                                    \
  X(cublasLtDestroy) X(cublasLtGetVersion) X(cublasLtGetStatusName) X(cublasLtMatmulDescCreate)                        \
      X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate)                     \
          X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate)         \
              X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)                               \
                  X(cublasLtMatmulAlgoGetHeuristic) X(cublasLtMatmulAlgoCheck) X(cublasLtMatmul)

struct CublasLt {
#define MSAMP_DECLARE(function) decltype(&::function) function;
  MSAMP_CUBLASLT_FUNCTIONS(MSAMP_DECLARE)
#undef MSAMP_DECLARE

  // Error 75 if the library is not here.
  static const CublasLt &get();
};

// Error 70 that names the call.
void check(cublasStatus_t status, const char *call);

} // namespace msamp::runtime::cuda

#define MSAMP_LT(function, ...)                                                                                        \
  ::msamp::runtime::cuda::check(::msamp::runtime::cuda::CublasLt::get().function(__VA_ARGS__), #function)

#endif
