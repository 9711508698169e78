// What an optimizer step computes of a vector of parameters, in FP32, the same for all targets.
#ifndef MSAMP_CODEGEN_KERNEL_UPDATEMATH_H
#define MSAMP_CODEGEN_KERNEL_UPDATEMATH_H

#include "codegen/kernel/KernelBuilder.h"
#include "passes/partition/StateClasses.h"

namespace msamp::codegen {

// What an update kernel is given in FP32. GradFactor is the clip factor over the number of summed micro-batches; BiasM and
// BiasV are 1 / (1 - beta^t). With Skip not 0 the kernel writes nothing. Of these: Rest1 = 1 - beta1, RootRest2 = root of
// 1 - beta2, RootFactor = root of BiasV over BiasM, EpsilonFactor = Epsilon / BiasM.
enum UpdateHyper {
  LearningRate,
  Beta1,
  Beta2,
  Epsilon,
  WeightDecay,
  GradFactor,
  BiasM,
  BiasV,
  Skip,
  Rest1,
  RootRest2,
  RootFactor,
  EpsilonFactor,
  UpdateHyperCount
};

// Whether moments of this type are kept times a scale, one a block of 128 values.
bool isBlockScaled(partition::Storage type);

// One vector of each array of a state class; null where the class has none. The source is the master, or the weight
// that is itself the master.
struct UpdateVectors {
  mlir::Value source, grad, m, v;
};
// Scales of the same arrays as FP32 scalars, powers of two, stored = value * scale; null: 1.
using UpdateScales = UpdateVectors;

class UpdateMath {
public:
  // `hyper`: scalars by UpdateHyper; `width` of the vectors to come.
  UpdateMath(KernelBuilder &k, llvm::StringRef optimizer, llvm::ArrayRef<mlir::Value> hyper, int64_t width);

  // Of what `step` is given from now on.
  void setScales(const UpdateScales &scales);
  // Stored values to new ones in FP32, without gradient: adamw, adam (decay in the gradient) or sgd (momentum).
  UpdateVectors step(const UpdateVectors &stored);

  // `v` as it is stored: times the scale, where there is one, and rounded.
  mlir::Value stored(mlir::Value v, partition::Storage type, mlir::Value scale);
  // The largest magnitude in the vectors as a scalar; NaN if there is one.
  mlir::Value magnitude(llvm::ArrayRef<mlir::Value> vectors);
  // The scale for a block of such a moment.
  mlir::Value scaleOf(partition::Storage type, mlir::Value amax);

private:
  mlir::Value wide(mlir::Value scalar) { return k.splat(scalar, width); }
  mlir::Value inverse(mlir::Value scale);
  mlir::Value real(mlir::Value stored, mlir::Value factor);

  KernelBuilder &k;
  bool decoupled, momentum;
  int64_t width;
  llvm::SmallVector<mlir::Value> hyper;
  mlir::Value down, decay, rest1, rootRest2, rootFactor, epsilonFactor; // vectors; down: -LearningRate
  // What stored values are multiplied by: to be real ones, and then by what the update multiplies them by.
  UpdateVectors factors;
  mlir::Value gradToM, gradToRootV;
};

} // namespace msamp::codegen

#endif
