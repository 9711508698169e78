#include "codegen/kernel/BodyOps.h"
#include "codegen/kernel/ScaleOf.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

#include <limits>

using namespace mlir;

namespace msamp::codegen {

Type elementOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}

Type widen(Type element, int64_t width) {
  return width ? Type(VectorType::get({width}, element)) : element;
}

Value constantOf(ImplicitLocOpBuilder &b, Type type, Attribute element) {
  if (auto vector = dyn_cast<VectorType>(type))
    element = DenseElementsAttr::get(vector, element);
  return arith::ConstantOp::create(b, cast<TypedAttr>(element));
}

Value constantOf(ImplicitLocOpBuilder &b, Type type, double value) {
  return constantOf(b, type, Attribute(b.getFloatAttr(getElementTypeOrSelf(type), value)));
}

Value integerOf(ImplicitLocOpBuilder &b, Type type, int64_t value) {
  return constantOf(b, type, Attribute(b.getIntegerAttr(getElementTypeOrSelf(type), value)));
}

bool isSplat(Operation *op) {
  auto constant = dyn_cast_or_null<arith::ConstantOp>(op);
  return constant && isa<SplatElementsAttr>(constant.getValue());
}

Value emitSplat(ImplicitLocOpBuilder &b, Operation *op, int64_t width) {
  auto value = cast<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue());
  return constantOf(b, widen(value.getElementType(), width), value.getSplatValue<Attribute>());
}

Value emitBodyOp(ImplicitLocOpBuilder &b, Operation *op, ArrayRef<Value> operands, int64_t width) {
  if (isa<ReshapeOp, TransposeOp, BroadcastOp>(op))
    return operands[0];
  if (auto q = dyn_cast<QuantizeOp>(op)) {
    Value x = operands[0];
    if (!elementOf(q.getX()).isF32())
      x = arith::ExtFOp::create(b, widen(b.getF32Type(), width), x);
    Value scaled = arith::MulFOp::create(b, x, operands[1]);
    return arith::TruncFOp::create(b, widen(elementOf(q.getResult()), width), scaled);
  }
  if (auto s = dyn_cast<ScaleOfOp>(op))
    return emitScaleOf(b, operands[0], s.getFormat(), s.getMargin());
  IRMapping map;
  for (auto [from, to] : llvm::zip(op->getOperands(), operands))
    map.map(from, to);
  Operation *clone = b.clone(*op, map);
  clone->getResult(0).setType(widen(elementOf(op->getResult(0)), width));
  return clone->getResult(0);
}

Value combine(ImplicitLocOpBuilder &b, ReduceKind kind, Value x, Value y) {
  switch (kind) {
  case ReduceKind::Sum:
    return arith::AddFOp::create(b, x, y);
  case ReduceKind::Max:
    return arith::MaximumFOp::create(b, x, y);
  case ReduceKind::Min:
    return arith::MinimumFOp::create(b, x, y);
  }
  llvm_unreachable("kinds are covered");
}

Value neutral(ImplicitLocOpBuilder &b, ReduceKind kind, int64_t width) {
  double inf = std::numeric_limits<double>::infinity();
  double value = kind == ReduceKind::Sum ? 0.0 : kind == ReduceKind::Max ? -inf : inf;
  return constantOf(b, widen(b.getF32Type(), width), value);
}

} // namespace msamp::codegen
