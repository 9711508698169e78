#include "codegen/kernel/KernelBuilder.h"

using namespace mlir;

namespace msamp::codegen {

Value KernelBuilder::add(Value x, Value y) {
  if (x.getType() != y.getType()) {
    x = resize(x, i64());
    y = resize(y, i64());
  }
  return arith::AddIOp::create(b, x, y);
}

Value KernelBuilder::add(Value x, int64_t y) {
  if (y == 0)
    return x;
  Value other = integer(x.getType(), y);
  return arith::AddIOp::create(b, x, other);
}

Value KernelBuilder::mul(Value x, int64_t y) {
  if (y == 1)
    return x;
  Value factor = integer(x.getType(), y);
  return arith::MulIOp::create(b, x, factor);
}

Value KernelBuilder::divide(Value x, int64_t y) {
  if (y == 1)
    return x;
  Value divisor = integer(x.getType(), y);
  return arith::DivUIOp::create(b, x, divisor);
}

Value KernelBuilder::remainder(Value x, int64_t y) {
  Value divisor = integer(x.getType(), y);
  return arith::RemUIOp::create(b, x, divisor);
}

Value KernelBuilder::resize(Value x, Type type) {
  if (x.getType() == type)
    return x;
  if (type == i64())
    return arith::ExtUIOp::create(b, type, x);
  return arith::TruncIOp::create(b, type, x);
}

Value KernelBuilder::splat(Value scalar, int64_t width) {
  if (!width)
    return scalar;
  return vector::BroadcastOp::create(b, VectorType::get({width}, scalar.getType()), scalar);
}

Type KernelBuilder::memoryType(Type element) {
  if (isa<Float8E4M3FNType, Float8E5M2Type>(element) || element.isInteger(1))
    return b.getI8Type();
  return element;
}

int64_t KernelBuilder::bytesOf(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

Value KernelBuilder::address(Value base, Value elementIndex, Type element) {
  // Indices are never negative, but LLVM would extend their sign.
  Value wide = resize(elementIndex, i64());
  SmallVector<LLVM::GEPArg> indices = {wide};
  return LLVM::GEPOp::create(b, base.getType(), memoryType(element), base, indices);
}

Value KernelBuilder::load(Value at, Type element, int64_t width, int64_t alignment) {
  Type memory = memoryType(element);
  alignment = std::min<int64_t>(16, std::max(alignment, bytesOf(element)));
  Value value = LLVM::LoadOp::create(b, widen(memory, width), at, alignment);
  if (memory == element)
    return value;
  if (!element.isInteger(1))
    return arith::BitcastOp::create(b, widen(element, width), value);
  Value zero = integer(value.getType(), 0);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, zero);
}

void KernelBuilder::store(Value value, Value at, Type element, int64_t alignment) {
  Type memory = memoryType(element);
  int64_t width = 0;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    width = vector.getDimSize(0);
  if (element.isInteger(1))
    value = arith::ExtUIOp::create(b, widen(memory, width), value);
  else if (memory != element)
    value = arith::BitcastOp::create(b, widen(memory, width), value);
  alignment = std::min<int64_t>(16, std::max(alignment, bytesOf(element)));
  LLVM::StoreOp::create(b, value, at, alignment);
}

void KernelBuilder::when(Value condition, const std::function<void()> &body) {
  when(condition, ValueRange(), [&]() -> SmallVector<Value> {
    body();
    return {};
  });
}

SmallVector<Value> KernelBuilder::when(Value condition, ValueRange otherwise,
                                       const std::function<SmallVector<Value>()> &body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(b, otherwise.getTypes(), condition, /*withElseRegion=*/!otherwise.empty());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  SmallVector<Value> values = body();
  if (!otherwise.empty()) {
    scf::YieldOp::create(b, values);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, otherwise);
  }
  return branch.getResults();
}

SmallVector<Value> KernelBuilder::loop(Value from, Value to, Value step, ValueRange initial,
                                       const std::function<SmallVector<Value>(Value, ValueRange)> &body) {
  auto loop = scf::ForOp::create(b, from, to, step, initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> values = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(b, values);
  return loop.getResults();
}

} // namespace msamp::codegen
