#include "runtime/device/cpu/VectorOps.h"

namespace msamp::runtime::cpu {

extern const VectorOps vectorOps_v2, vectorOps_v3, vectorOps_v4;

const VectorOps &vectorOps() {
  static const VectorOps &best = []() -> const VectorOps & {
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
    return v4 ? vectorOps_v4 : v3 ? vectorOps_v3 : vectorOps_v2;
  }();
  return best;
}

} // namespace msamp::runtime::cpu
