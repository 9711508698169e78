// The Plan dialect: a program as steps over memory, the form that a plan directory stores.
#ifndef MSAMP_PLAN_DIALECT_TD
#define MSAMP_PLAN_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/EnumAttr.td"

def PlanDialect : Dialect {
  let name = "plan";
  let cppNamespace = "::msamp::planir";
  let summary = "programs as steps over buffers in arenas";
  let description = [{
    A `plan.program` is a list of steps in execution order. Memory is either a `plan.buffer` (a region of the program's
    arena, with a lifetime in steps) or a `plan.place` (memory that outlives the program: weights, gradients, scales,
    inputs, outputs, constants). A `plan.view` is a typed, strided part of either. Types are memrefs; the offset is the
    view's, in bytes, so that one buffer can hold values of several types.
  }];
}

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<PlanDialect, mnemonic, traits>;

def BufferRoleAttr : I32EnumAttr<"BufferRole", "what a buffer is for", [
    I32EnumAttrCase<"Activation", 0, "activation">, I32EnumAttrCase<"Workspace", 1, "workspace">]> {
  let cppNamespace = "::msamp::planir";
}

def PlaceKindAttr : I32EnumAttr<"PlaceKind", "memory outside a program's arena", [
    I32EnumAttrCase<"Input", 0, "input">, I32EnumAttrCase<"Output", 1, "output">,
    I32EnumAttrCase<"Constant", 2, "constant">, I32EnumAttrCase<"Weight", 3, "weight">,
    I32EnumAttrCase<"Grad", 4, "grad">, I32EnumAttrCase<"WeightScale", 5, "weight_scale">,
    I32EnumAttrCase<"WeightAmax", 6, "weight_amax">, I32EnumAttrCase<"GradScale", 7, "grad_scale">,
    I32EnumAttrCase<"SiteScale", 8, "site_scale">]> {
  let cppNamespace = "::msamp::planir";
}

def StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::msamp::planir";
  let description = [{ One step of a program: what it reads and writes, when it runs and what it costs. }];
  let methods = [
    InterfaceMethod<"Memory that the step reads.", "::mlir::OperandRange", "getInputs">,
    InterfaceMethod<"Memory that the step writes.", "::mlir::OperandRange", "getOutputs">,
    InterfaceMethod<"Scratch memory, at most one buffer.", "::mlir::OperandRange", "getWorkspace">,
    InterfaceMethod<"Whether the step runs only while delayed sites have no history.", "bool", "getFirst">,
    InterfaceMethod<"Bytes read and written.", "uint64_t", "getBytes">,
    InterfaceMethod<"Floating-point operations.", "uint64_t", "getFlops">];
}

#endif
