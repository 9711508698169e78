#include "codegen/cuda/CudaBuilder.h"

using namespace mlir;

namespace msamp::codegen::cuda {

Value CudaBuilder::less(Value x, int64_t y) {
  Value limit = integer(x.getType(), y);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, limit);
}

Value CudaBuilder::equal(Value x, int64_t y) {
  Value other = integer(x.getType(), y);
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, x, other);
}

Value CudaBuilder::both(Value x, Value y) {
  if (!x || !y)
    return x ? x : y;
  return arith::AndIOp::create(b, x, y);
}

Value CudaBuilder::select(Value condition, Value x, Value y) {
  return condition ? Value(arith::SelectOp::create(b, condition, x, y)) : x;
}

Value CudaBuilder::extract(Value vector, int64_t position) {
  return vector::ExtractOp::create(b, vector, ArrayRef<int64_t>{position});
}

Value CudaBuilder::address(Value base, int64_t elementIndex, Type element) {
  if (elementIndex == 0)
    return base;
  if (std::abs(elementIndex) >= int64_t(1) << 28) // more than constants of a GEP hold
    return address(base, integer(i64(), elementIndex), element);
  SmallVector<LLVM::GEPArg> indices = {static_cast<int32_t>(elementIndex)};
  return LLVM::GEPOp::create(b, base.getType(), memoryType(element), base, indices);
}

Value CudaBuilder::threadId() {
  return NVVM::ThreadIdXOp::create(b, i32());
}
Value CudaBuilder::blockId() {
  return NVVM::BlockIdXOp::create(b, i32());
}

Value CudaBuilder::computedHere(Value value) {
  auto move = LLVM::InlineAsmOp::create(b, value.getType(), value, "mov.b32 $0, $1;", "=r,r", /*has_side_effects=*/true,
                                        /*is_align_stack=*/false, LLVM::TailCallKind::None, LLVM::AsmDialectAttr(),
                                        ArrayAttr());
  return move.getResult(0);
}

void CudaBuilder::storePart(ArrayRef<Value> words, Value at) {
  SmallVector<Value> operands = {at};
  operands.append(words.begin(), words.end());
  LLVM::InlineAsmOp::create(b, TypeRange(), operands,
                            "{\n\t.reg .b64 policy;\n\tcreatepolicy.fractional.L2::evict_last.b64 policy, 1.0;\n\t"
                            "st.global.L2::cache_hint.v4.b32 [$0], {$1, $2, $3, $4}, policy;\n\t}",
                            "l,r,r,r,r,~{memory}", /*has_side_effects=*/true, /*is_align_stack=*/false,
                            LLVM::TailCallKind::None, LLVM::AsmDialectAttr(), ArrayAttr());
}

Value CudaBuilder::exchange(Value value, int64_t bit) {
  Value mask = integer(-1), offset = integer(bit), clamp = integer(31);
  return NVVM::ShflOp::create(b, value.getType(), mask, value, offset, clamp, NVVM::ShflKind::bfly, UnitAttr());
}

void CudaBuilder::barrier() {
  NVVM::Barrier0Op::create(b);
}

void CudaBuilder::barrier(Value team, int64_t threads) {
  Value id = add(team, 1), count = integer(threads);
  NVVM::BarrierOp::create(b, TypeRange(), id, count, NVVM::BarrierReductionAttr(), Value());
}

Value CudaBuilder::reduceLanes(ReduceKind kind, Value value, int64_t lanes) {
  for (int64_t bit = lanes / 2; bit >= 1; bit /= 2) {
    Value other = exchange(value, bit);
    value = combine(b, kind, value, other);
  }
  return value;
}

Value CudaBuilder::reduceVector(ReduceKind kind, Value vector) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  SmallVector<Value> values;
  for (int64_t i = 0; i < type.getDimSize(0); ++i)
    values.push_back(extract(vector, i));
  while (values.size() > 1) {
    SmallVector<Value> next;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(combine(b, kind, values[i], values[i + 1]));
    if (values.size() % 2)
      next.push_back(values.back());
    values = next;
  }
  return values[0];
}

Value CudaBuilder::sharedArray(gpu::GPUModuleOp module, StringRef symbol, int64_t count) {
  {
    OpBuilder::InsertionGuard guard(b);
    auto type = LLVM::LLVMArrayType::get(f32(), count);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, type, /*isConstant=*/false, LLVM::Linkage::Internal, symbol, Attribute(),
                           /*alignment=*/16, /*addrSpace=*/3);
  }
  return LLVM::AddressOfOp::create(b, shared(), symbol);
}

Value CudaBuilder::dynamicShared(gpu::GPUModuleOp module) {
  constexpr StringRef symbol = "dynamic_shared";
  if (!module.lookupSymbol(symbol)) {
    OpBuilder::InsertionGuard guard(b);
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, type, /*isConstant=*/false, LLVM::Linkage::External, symbol, Attribute(),
                           /*alignment=*/16, /*addrSpace=*/3);
  }
  return LLVM::AddressOfOp::create(b, shared(), symbol);
}

void CudaBuilder::copyAsync(Value to, Value from, int64_t bytes) {
  const int64_t each = std::min<int64_t>(bytes, 16);
  for (int64_t at = 0; at < bytes; at += each) {
    Value there = address(to, at, b.getI8Type()), here = address(from, at, b.getI8Type());
    auto cache = each == 16 ? NVVM::LoadCacheModifierKind::CG : NVVM::LoadCacheModifierKind::CA;
    NVVM::CpAsyncOp::create(b, there, here, static_cast<uint32_t>(each), cache, Value());
  }
}

void CudaBuilder::commitCopies() {
  NVVM::CpAsyncCommitGroupOp::create(b);
}

void CudaBuilder::awaitCopies(int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(b, static_cast<uint32_t>(pending));
}

LLVM::LLVMFuncOp CudaBuilder::kernel(gpu::GPUModuleOp module, StringRef symbol, unsigned args, int64_t block,
                                     int64_t blocksPerMultiprocessor) {
  b.setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), SmallVector<Type>(args, global()),
                                          /*isVarArg=*/false);
  auto func = LLVM::LLVMFuncOp::create(b, symbol, type);
  func->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  func->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), b.getDenseI32ArrayAttr({static_cast<int32_t>(block), 1, 1}));
  if (blocksPerMultiprocessor)
    func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  b.getI32IntegerAttr(static_cast<int32_t>(blocksPerMultiprocessor)));
  for (unsigned i = 0; i < args; ++i)
    func.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
  Block *entry = func.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  LLVM::ReturnOp::create(b, ValueRange());
  b.setInsertionPointToStart(entry);
  return func;
}

} // namespace msamp::codegen::cuda
