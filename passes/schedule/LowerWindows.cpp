// Lowers convolutions, pools and their gradients to steps.
#include "passes/schedule/Lowering.h"

#include "llvm/ADT/TypeSwitch.h"

namespace msamp::schedule {
using namespace mlir;

static RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

// Multiply-adds of a convolution or one of its gradients, counted as two operations: a filter's values for each window's
// output channel.
static uint64_t convFlops(Value y, Value filter) {
  auto f = typeOf(filter);
  return 2 * typeOf(y).getNumElements() * (f.getNumElements() / f.getDimSize(0));
}

// Operands and results of ops over windows are row-major.
template <typename StepOp, typename... Own>
void FunctionLowering::lowerWindows(Operation *op, uint64_t flops, Own... own) {
  SmallVector<TensorMemory> inputs, outputs;
  for (Value v : op->getOperands())
    inputs.push_back(contiguous(v));
  for (Value v : op->getResults())
    outputs.push_back(define(v, /*strided=*/false));
  step<StepOp>(op->getLoc(), inputs, outputs, flops, own...);
}

bool FunctionLowering::lowerOverWindows(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case<ConvOp>([&](ConvOp op) {
        lowerWindows<planir::ConvOp>(op, convFlops(op.getY(), op.getFilter()), op.getWindow(), op.getGroups());
        return true;
      })
      .Case<ConvDgradOp>([&](ConvDgradOp op) {
        lowerWindows<planir::ConvDgradOp>(op, convFlops(op.getDY(), op.getFilter()), op.getWindow(), op.getGroups());
        return true;
      })
      .Case<ConvWgradOp>([&](ConvWgradOp op) {
        lowerWindows<planir::ConvWgradOp>(op, convFlops(op.getDY(), op.getDFilter()), op.getWindow(), op.getGroups());
        return true;
      })
      .Case<MaxPoolOp>([&](MaxPoolOp op) {
        lowerWindows<planir::MaxPoolOp>(op, typeOf(op.getY()).getNumElements() * op.getWindow().taps(), op.getWindow());
        return true;
      })
      .Case<MaxPoolGradOp>([&](MaxPoolGradOp op) {
        lowerWindows<planir::MaxPoolGradOp>(op, typeOf(op.getDY()).getNumElements(), op.getWindow());
        return true;
      })
      .Case<AvgPoolOp>([&](AvgPoolOp op) {
        lowerWindows<planir::AvgPoolOp>(op, typeOf(op.getY()).getNumElements() * op.getWindow().taps(), op.getWindow(),
                                        op.getCountPadding());
        return true;
      })
      .Case<AvgPoolGradOp>([&](AvgPoolGradOp op) {
        lowerWindows<planir::AvgPoolGradOp>(op, typeOf(op.getDY()).getNumElements() * op.getWindow().taps(),
                                            op.getWindow(), op.getCountPadding());
        return true;
      })
      .Default(false);
}

} // namespace msamp::schedule
