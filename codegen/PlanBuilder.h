// State of the conversion of a module to a plan: indices of everything that has a name.
#ifndef MSAMP_CODEGEN_PLANBUILDER_H
#define MSAMP_CODEGEN_PLANBUILDER_H

#include "ir/Plan/Plan.h"
#include "runtime/plan/plan.pb.h"

#include "llvm/ADT/StringMap.h"

namespace msamp::codegen {

plan::Type planType(mlir::Type type);

class PlanBuilder {
public:
  PlanBuilder(llvm::StringRef name, mlir::ModuleOp module) : module(module), target(*out.add_targets()) {
    target.set_name(name.str());
  }
  void addHeader();
  void addInputs();
  void addConstants();
  void addParameters();
  void addBuckets();
  void addSites();
  void addKernels();
  void addProgram(planir::ProgramOp program);

  plan::Plan out;

private:
  using Index = llvm::StringMap<uint32_t>;
  struct ProgramState {
    plan::Program *program = nullptr;
    llvm::DenseMap<mlir::Value, uint32_t> buffers;
    Index outputs;
  };
  uint32_t classIndex(llvm::StringRef name);
  plan::Operand operand(ProgramState &state, mlir::Value memory);
  void addStep(ProgramState &state, planir::StepOpInterface step);
  void setKind(plan::Step &to, mlir::Operation *step);

  mlir::ModuleOp module;
  plan::Target &target; // of `out`
  Index inputIndex, constantIndex, parameterIndex, bucketIndex, siteIndex, kernelIndex, classes;
};

} // namespace msamp::codegen

#endif
