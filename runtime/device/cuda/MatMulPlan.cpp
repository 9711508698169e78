// Plans of products: descriptors of cuBLASLt by shape, and the choice of an algorithm for each.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <fmt/format.h>

#include "runtime/core/Error.h"
#include "runtime/device/cuda/MatMul.h"
#include "runtime/device/cuda/MatMulPlan.h"

namespace msamp::runtime::cuda {

namespace {

constexpr int candidates = 10;

cudaDataType dataType(Type type) {
  switch (type) {
  case Type::F32:
    return CUDA_R_32F;
  case Type::BF16:
    return CUDA_R_16BF;
  case Type::F16:
    return CUDA_R_16F;
  case Type::E4M3:
    return CUDA_R_8F_E4M3;
  case Type::E5M2:
    return CUDA_R_8F_E5M2;
  default:
    failInternal("a product of {}", nameOf(type));
  }
}

unsigned alignmentClass(const Stored &s) {
  const auto size = static_cast<int64_t>(sizeOf(s.type));
  // What lies between 16 and 256 makes no difference to the kernels.
  const unsigned alignment = alignmentOf(s.data, {s.batchStride * size, s.callStrides * size});
  return alignment >= 16 && alignment < 256 ? 16 : alignment;
}

cublasLtMatrixLayout_t layoutOf(const Stored &s, Type type, int64_t batches) {
  cublasLtMatrixLayout_t layout;
  MSAMP_LT(cublasLtMatrixLayoutCreate, &layout, dataType(type), static_cast<uint64_t>(s.rows),
           static_cast<uint64_t>(s.cols), s.leading);
  if (batches > 1) {
    const auto count = static_cast<int32_t>(batches);
    MSAMP_LT(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    MSAMP_LT(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s.batchStride,
             sizeof s.batchStride);
  }
  return layout;
}

template <class Value>
void set(cublasLtMatmulDesc_t op, cublasLtMatmulDescAttributes_t attribute, Value value) {
  MSAMP_LT(cublasLtMatmulDescSetAttribute, op, attribute, &value, sizeof value);
}

// An event of the driver.
struct Event {
  CUevent event = nullptr;
  Event() { MSAMP_CU(cuEventCreate, &event, CU_EVENT_DEFAULT); }
  ~Event() { Driver::get().cuEventDestroy(event); }
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;
};

} // namespace

MatMul::Plan::~Plan() {
  const CublasLt &lt = CublasLt::get();
  for (cublasLtMatrixLayout_t layout : {first, second, addend, d})
    if (layout)
      lt.cublasLtMatrixLayoutDestroy(layout);
  if (op)
    lt.cublasLtMatmulDescDestroy(op);
}

std::string MatMul::keyOf(const Call &call, const Epilogue &e) const {
  auto text = [](const Stored &s) {
    return fmt::format("{}{} ld{} s{} a{}", nameOf(s.type), s.transposed ? 'T' : 'N', s.leading, s.batchStride,
                       alignmentClass(s));
  };
  auto textOf = [](cublasLtMatmulMatrixScale_t first, cublasLtMatmulMatrixScale_t second) {
    auto one = [](cublasLtMatmulMatrixScale_t mode) {
      return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F        ? "1x128"
             : mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F ? "128x128"
             : mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F  ? "rows"
                                                                   : "one";
    };
    return first == second ? std::string(one(first)) : fmt::format("{} by {}", one(first), one(second));
  };
  return fmt::format("{}x{}x{}x{}, {}, {}, {}, {}, scales {}{}{}{}", call.rows, call.cols, call.k, call.batches,
                     text(call.first), text(call.second), call.hasAddend ? text(call.addend) : "-", text(call.d),
                     e.scales.first ? textOf(e.scales.firstMode, e.scales.secondMode) : "-",
                     e.scaleOut ? " out" : "", e.amaxOut ? " amax" : "", e.bias ? fmt::format(", {} bias", nameOf(e.biasType)) : std::string());
}

MatMul::Plan *MatMul::planOf(const std::string &key, const Call &call, const Epilogue &e) {
  std::unique_ptr<Plan> fresh;
  auto known = plans_.find(key);
  Plan *plan = known == plans_.end() ? nullptr : known->second.get();
  if (!plan) {
    fresh = std::make_unique<Plan>();
    plan = fresh.get();
    MSAMP_LT(cublasLtMatmulDescCreate, &plan->op, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(plan->op, CUBLASLT_MATMUL_DESC_TRANSA, call.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(plan->op, CUBLASLT_MATMUL_DESC_TRANSB, call.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (isFp8(call.first.type)) {
      // Sums of blocks are added in FP32.
      const bool exact = options_.exactAccumulation || e.scales.blocks() || call.first.type == Type::E5M2 || call.second.type == Type::E5M2;
      set(plan->op, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(!exact));
    }
    // Libraries that know one value alone have no such attribute.
    if (e.scales.first && e.scales.firstMode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {
      set(plan->op, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, e.scales.firstMode);
      set(plan->op, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, e.scales.secondMode);
    }
    if (e.bias) {
      set(plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(plan->op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(dataType(e.biasType)));
    }
    plan->first = layoutOf(call.first, call.first.type, call.batches);
    plan->second = layoutOf(call.second, call.second.type, call.batches);
    plan->d = layoutOf(call.d, call.d.type, call.batches);
    // Without an addend its type still counts: that of D, or a wider one for FP8.
    plan->addend = call.hasAddend ? layoutOf(call.addend, call.addend.type, call.batches)
                                  : layoutOf(call.d, isFp8(call.d.type) ? Type::BF16 : call.d.type, call.batches);
  }
  // Pointers differ from call to call.
  if (e.scales.first) {
    set(plan->op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, e.scales.first);
    set(plan->op, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, e.scales.second);
  }
  if (e.bias)
    set(plan->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, e.bias);
  if (e.scaleOut)
    set(plan->op, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, e.scaleOut);
  if (e.amaxOut)
    set(plan->op, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, e.amaxOut);
  if (fresh) {
    if (!choose(key, *plan, call)) {
      refused_.insert(key);
      std::fprintf(stderr, "note: cuBLASLt has no algorithm for the product %s; it takes a slower way\n", key.c_str());
      return nullptr;
    }
    plans_.emplace(key, std::move(fresh));
  }
  return plan;
}

// The algorithm from the file, or the fastest of the heuristic's.
bool MatMul::choose(const std::string &key, Plan &plan, const Call &call) {
  const CublasLt &lt = CublasLt::get();
  const std::string tuningKey = key + (options_.exactAccumulation ? ", exact" : "");
  auto takes = [&](const MatMulTuning::Choice &choice) {
    cublasLtMatmulHeuristicResult_t result{};
    return lt.cublasLtMatmulAlgoCheck(lt_, plan.op, plan.first, plan.second, plan.addend, plan.d, &choice.algorithm,
                                      &result) == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= workspaceBytes_;
  };
  const auto known = options_.tune ? tuning_->find(tuningKey) : std::nullopt;
  if (known && takes(*known)) {
    plan.algorithm = known->algorithm;
    return true;
  }
  cublasLtMatmulPreference_t preference;
  MSAMP_LT(cublasLtMatmulPreferenceCreate, &preference);
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    MSAMP_LT(cublasLtMatmulPreferenceSetAttribute, preference, attribute, &value, sizeof value);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspaceBytes_));
  // Partial sums of a split K only in FP32, in memory of their own, in a fixed order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(alignmentClass(call.first)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(alignmentClass(call.second)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
         static_cast<uint32_t>(alignmentClass(call.hasAddend ? call.addend : call.d)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(alignmentClass(call.d)));
  std::vector<cublasLtMatmulHeuristicResult_t> found(candidates);
  int count = 0;
  const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(lt_, plan.op, plan.first, plan.second, plan.addend,
                                                                  plan.d, preference, candidates, found.data(), &count);
  lt.cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS)
    count = 0;
  found.resize(static_cast<size_t>(count));
  std::erase_if(found, [](const auto &result) { return result.state != CUBLAS_STATUS_SUCCESS; });
  if (found.empty())
    return false;
  plan.algorithm = found[0].algo;
  if (!options_.tune || isCapturing(stream_))
    return true;

  // What reads its own result must not be run twice on it.
  CUdeviceptr copy = 0;
  std::byte *d = call.d.data;
  if (call.hasAddend) {
    const auto size = static_cast<int64_t>(sizeOf(call.d.type));
    const int64_t elements = (call.batches - 1) * call.d.batchStride + (call.cols - 1) * call.d.leading + call.rows;
    if (Driver::get().cuMemAlloc(&copy, static_cast<size_t>(elements * size)) != CUDA_SUCCESS)
      return true;
    d = reinterpret_cast<std::byte *>(copy);
  }
  double best = -1;
  for (const auto &result : found) {
    const double microseconds = time(plan, call, result.algo, d);
    if (microseconds >= 0 && (best < 0 || microseconds < best)) {
      best = microseconds;
      plan.algorithm = result.algo;
    }
  }
  if (copy)
    MSAMP_CU(cuMemFree, copy);
  if (best < 0)
    return false;
  ++tuned_;
  if (const auto choice = tuning_->add(tuningKey, {plan.algorithm, workspaceBytes_, best}, known.has_value()); takes(choice))
    plan.algorithm = choice.algorithm;
  return true;
}

// Median of five, in microseconds; negative if the algorithm does not run.
double MatMul::time(const Plan &plan, const Call &call, const cublasLtMatmulAlgo_t &algorithm, std::byte *d) {
  if (execute(plan, call, algorithm, d) != CUBLAS_STATUS_SUCCESS)
    return -1;
  MSAMP_CU(cuStreamSynchronize, stream_);
  Event from, to;
  std::vector<float> times;
  int runs = 1; // a time; short ones several, since an event is good to half a microsecond
  for (int i = 0; i < 6; ++i) {
    MSAMP_CU(cuEventRecord, from.event, stream_);
    for (int r = 0; r < runs; ++r)
      execute(plan, call, algorithm, d);
    MSAMP_CU(cuEventRecord, to.event, stream_);
    MSAMP_CU(cuEventSynchronize, to.event);
    float milliseconds = 0;
    MSAMP_CU(cuEventElapsedTime, &milliseconds, from.event, to.event);
    if (i == 0)
      runs = std::clamp(static_cast<int>(0.2f / std::max(milliseconds, 0.001f)), 1, 10);
    else
      times.push_back(milliseconds / static_cast<float>(runs));
  }
  std::ranges::sort(times);
  return times[times.size() / 2] * 1000.0;
}

cublasStatus_t MatMul::execute(const Plan &plan, const Call &call, const cublasLtMatmulAlgo_t &algorithm,
                               std::byte *d) {
  const float one = 1, beta = call.hasAddend ? 1 : 0;
  // Unread without an addend; an FP8 D is not of its type.
  const void *c = call.hasAddend ? call.addend.data : isFp8(call.d.type) ? nullptr : d;
  return CublasLt::get().cublasLtMatmul(lt_, plan.op, &one, call.first.data, plan.first, call.second.data, plan.second,
                                        &beta, c, plan.addend, d, plan.d, &algorithm,
                                        reinterpret_cast<void *>(workspace_), workspaceBytes_, stream_);
}

void MatMul::runPlan(const Plan &plan, const Call &call) {
  check(execute(plan, call, plan.algorithm, call.d.data), "cublasLtMatmul");
}

} // namespace msamp::runtime::cuda
