#include "codegen/cpu/KernelBuilder.h"

#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace msamp::codegen {

Value KernelBuilder::constant(Type type, Attribute element) {
  if (auto vector = dyn_cast<VectorType>(type))
    element = DenseElementsAttr::get(vector, element);
  return arith::ConstantOp::create(b, cast<TypedAttr>(element));
}

Value KernelBuilder::constant(Type type, double value) {
  return constant(type, b.getFloatAttr(getElementTypeOrSelf(type), value));
}

Value KernelBuilder::integer(Type type, int64_t value) {
  return constant(type, b.getIntegerAttr(getElementTypeOrSelf(type), value));
}

Value KernelBuilder::mul(Value x, int64_t y) {
  if (y == 1)
    return x;
  Value factor = index(y);
  return arith::MulIOp::create(b, x, factor);
}

Value KernelBuilder::divide(Value x, int64_t y) {
  if (y == 1)
    return x;
  Value divisor = index(y);
  return arith::DivUIOp::create(b, x, divisor);
}

Value KernelBuilder::remainder(Value x, int64_t y) {
  Value divisor = index(y);
  return arith::RemUIOp::create(b, x, divisor);
}

Value KernelBuilder::splat(Value scalar, int64_t width) {
  if (!width)
    return scalar;
  return vector::BroadcastOp::create(b, VectorType::get({width}, scalar.getType()), scalar);
}

// BF16 is loaded and stored as integers: processors without BF16 instructions get its scalars by calls into the
// compiler's run-time library otherwise, which kernels do not link.
Type KernelBuilder::memoryType(Type element) {
  if (isa<Float8E4M3FNType, Float8E5M2Type>(element) || element.isInteger(1))
    return b.getI8Type();
  if (element.isBF16())
    return b.getI16Type();
  return element;
}

Value KernelBuilder::address(Value base, Value elementIndex, Type element) {
  SmallVector<LLVM::GEPArg> indices = {elementIndex};
  return LLVM::GEPOp::create(b, ptr(), memoryType(element), base, indices);
}

Value KernelBuilder::load(Value base, Value elementIndex, Type element, int64_t width) {
  Type memory = memoryType(element);
  Value at = address(base, elementIndex, element);
  unsigned alignment = std::max(1u, memory.getIntOrFloatBitWidth() / 8);
  Value value = LLVM::LoadOp::create(b, widen(memory, width), at, alignment);
  if (memory == element)
    return value;
  if (!element.isInteger(1))
    return arith::BitcastOp::create(b, widen(element, width), value);
  Value zero = integer(value.getType(), 0);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, value, zero);
}

void KernelBuilder::store(Value value, Value base, Value elementIndex, Type element) {
  Type memory = memoryType(element);
  int64_t width = 0;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    width = vector.getDimSize(0);
  if (element.isInteger(1))
    value = arith::ExtUIOp::create(b, widen(memory, width), value);
  else if (memory != element)
    value = arith::BitcastOp::create(b, widen(memory, width), value);
  Value at = address(base, elementIndex, element);
  LLVM::StoreOp::create(b, value, at, std::max(1u, memory.getIntOrFloatBitWidth() / 8));
}

void KernelBuilder::loop(Value from, Value to, int64_t step, const std::function<void(Value)> &body) {
  Value by = index(step);
  auto loop = scf::ForOp::create(b, from, to, by);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

void KernelBuilder::when(Value condition, const std::function<void()> &body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

KernelBuilder::Kernel KernelBuilder::kernel(ModuleOp module, OpBuilder &builder, Location loc, StringRef symbol,
                                            unsigned args, bool chunked) {
  Type ptr = LLVM::LLVMPointerType::get(module.getContext()), i64 = builder.getI64Type();
  SmallVector<Type> inputs = {ptr};
  if (chunked)
    inputs.append({i64, i64});
  builder.setInsertionPointToEnd(module.getBody());
  auto func = func::FuncOp::create(builder, loc, symbol, builder.getFunctionType(inputs, {}));
  Block *entry = func.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  func::ReturnOp::create(builder, loc);
  builder.setInsertionPointToStart(entry);
  Kernel kernel{func, {}, {}, {}};
  for (unsigned i = 0; i < args; ++i) {
    SmallVector<LLVM::GEPArg> indices = {static_cast<int32_t>(i)};
    Value slot = LLVM::GEPOp::create(builder, loc, ptr, ptr, entry->getArgument(0), indices);
    kernel.args.push_back(LLVM::LoadOp::create(builder, loc, ptr, slot));
  }
  if (chunked)
    kernel.begin = entry->getArgument(1), kernel.end = entry->getArgument(2);
  return kernel;
}

} // namespace msamp::codegen
