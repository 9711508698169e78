#include "codegen/cpu/CpuBuilder.h"

using namespace mlir;

namespace msamp::codegen {

void CpuBuilder::loop(Value from, Value to, int64_t step, const std::function<void(Value)> &body) {
  Value by = index(step);
  KernelBuilder::loop(from, to, by, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

CpuBuilder::Kernel CpuBuilder::kernel(ModuleOp module, OpBuilder &builder, Location loc, StringRef symbol,
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
