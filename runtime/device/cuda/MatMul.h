// Matrix products by cuBLASLt, with algorithms tuned at the first use of a shape; kernels of our own around it for what
// it does not take.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_MATMUL_H
#define MSAMP_RUNTIME_DEVICE_CUDA_MATMUL_H

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/device/Device.h"
#include "runtime/device/cuda/CublasLt.h"
#include "runtime/device/cuda/MatMulLayout.h"
#include "runtime/device/cuda/MatMulTuning.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/Scratch.h"

namespace msamp::runtime::cuda {

struct MatMulOptions {
  bool exactAccumulation = false; // also of E4M3 with E4M3; with E5M2 it always is
  bool tune = true;               // false: what the library thinks best
  std::filesystem::path tuningFile = MatMulTuning::fileIn({});
};

class MatMul {
public:
  MatMul(CUdevice device, CUstream stream, Scratch &scratch, MatMulOptions options = {});
  ~MatMul();
  MatMul(const MatMul &) = delete;
  MatMul &operator=(const MatMul &) = delete;

  // Enqueues; all pointers are in device memory. The first call of a shape may tune, allocate and wait; while the
  // stream is captured nothing of that happens.
  void run(const MatMulArgs &args);

  // Where the inverse of a scale (or of a contiguous vector of them) is kept up to date, or null. Without it a kernel
  // inverts scales before each product.
  using InverseOf = std::function<const float *(const Tensor &scale)>;
  void setInverses(InverseOf inverseOf) { inverseOf_ = std::move(inverseOf); }

  // Device memory for the library's own use.
  size_t bytes() const { return workspaceBytes_; }
  // Shapes tuned by this process, for people.
  unsigned tuned() const { return tuned_; }

private:
  struct Scales { // of the call's first and second matrix: what values are multiplied by
    const float *first = nullptr, *second = nullptr;
    cublasLtMatmulMatrixScale_t firstMode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, secondMode = firstMode;
    bool blocks() const {
      return firstMode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F || secondMode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    }
  };
  struct Epilogue {
    Scales scales;
    const float *scaleOut = nullptr;
    float *amaxOut = nullptr;
    const std::byte *bias = nullptr;
    Type biasType = Type::None;
  };
  struct Plan;

  bool attempt(const MatMulArgs &args, const Product &product, Type typeA, Type typeB, bool finish);
  bool fp8Fits(const Product &product) const;
  std::string keyOf(const Call &call, const Epilogue &epilogue) const;
  Plan *planOf(const std::string &key, const Call &call, const Epilogue &epilogue);
  bool choose(const std::string &key, Plan &plan, const Call &call);
  double time(const Plan &plan, const Call &call, const cublasLtMatmulAlgo_t &algorithm, std::byte *d);
  cublasStatus_t execute(const Plan &plan, const Call &call, const cublasLtMatmulAlgo_t &algorithm, std::byte *d);
  void runPlan(const Plan &plan, const Call &call);
  void pack(const Product &product, const Operand &from, std::byte *to, Type type, const Tensor *scale = nullptr);
  void finish(const MatMulArgs &args, const Product &product, const float *result);

  CUstream stream_;
  Scratch &scratch_;
  MatMulOptions options_;
  InverseOf inverseOf_;
  int capability_ = 0; // 90: sm_90
  unsigned processors_ = 1;
  cublasLtHandle_t lt_ = nullptr;
  CUdeviceptr workspace_ = 0;
  size_t workspaceBytes_ = 64 << 20;
  Module module_;
  CUfunction packKernel_ = nullptr, finishKernel_ = nullptr, invertKernel_ = nullptr;
  std::optional<MatMulTuning> tuning_;
  std::map<std::string, std::unique_ptr<Plan>> plans_;
  std::set<std::string> refused_; // by the library
  unsigned tuned_ = 0;
};

} // namespace msamp::runtime::cuda

#endif
