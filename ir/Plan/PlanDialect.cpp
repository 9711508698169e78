// Registration of the Plan dialect and the verifiers of its ops.
#include "ir/Plan/Plan.h"

#include "mlir/IR/DialectImplementation.h"

#include "ir/Plan/PlanDialect.cpp.inc"
#include "ir/Plan/PlanEnums.cpp.inc"
#include "ir/Plan/PlanInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "ir/Plan/PlanOps.cpp.inc"

using namespace mlir;

namespace msamp::planir {

void PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/Plan/PlanOps.cpp.inc"
      >();
}

int64_t elementBytes(Type type) {
  return (type.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t extentInBytes(MemRefType type) {
  if (type.getNumElements() == 0)
    return 0;
  SmallVector<int64_t> strides;
  int64_t offset = 0, last = 0;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return -1;
  for (auto [size, stride] : llvm::zip(type.getShape(), strides))
    last += (size - 1) * stride;
  return (last + 1) * elementBytes(type.getElementType());
}

std::pair<Value, int64_t> baseOf(Value memory) {
  int64_t offset = 0;
  while (auto view = memory.getDefiningOp<ViewOp>()) {
    offset += static_cast<int64_t>(view.getOffset());
    memory = view.getBase();
  }
  return {memory, offset};
}

LogicalResult KernelOp::verify() {
  Block &block = getBody().front();
  if (!llvm::hasSingleElement(block) || !isa<ClusterOp>(block.front()))
    return emitOpError() << "holds " << block.getOperations().size() << " ops, expected one msamp.cluster";
  if (!llvm::equal(cast<ClusterOp>(block.front()).getInputs(), block.getArguments()))
    return emitOpError() << "passes something else to its cluster than its arguments in order";
  return success();
}

LogicalResult BufferOp::verify() {
  auto type = cast<MemRefType>(getMemory().getType());
  if (type.getRank() != 1 || !type.getElementType().isInteger(8) || !type.getLayout().isIdentity())
    return emitOpError() << "has type " << type << ", expected bytes (memref<Nxi8>)";
  if (getOffset() && *getOffset() % 64)
    return emitOpError() << "lies at " << *getOffset() << ", expected a multiple of 64";
  if (getLifetime() && (getLifetime()->size() != 2 || (*getLifetime())[0] > (*getLifetime())[1]))
    return emitOpError() << "has lifetime [" << *getLifetime() << "], expected the first and the last step";
  return success();
}

LogicalResult ViewOp::verify() {
  int64_t base = extentInBytes(cast<MemRefType>(getBase().getType()));
  int64_t end = static_cast<int64_t>(getOffset()) + extentInBytes(cast<MemRefType>(getView().getType()));
  if (static_cast<int64_t>(getOffset()) < 0 || end > base)
    return emitOpError() << "covers bytes [" << getOffset() << ", " << end << ") of " << base;
  return success();
}

} // namespace msamp::planir
