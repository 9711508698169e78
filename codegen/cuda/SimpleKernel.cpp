// The CPU's functions as they are, called by entry points that put their parameters into an array.
#include "codegen/cuda/SimpleKernel.h"

#include "codegen/cpu/ClusterKernel.h"
#include "codegen/cpu/CpuKernels.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace msamp::codegen::cuda {
namespace {

constexpr int64_t threads = 64;

// An entry point that calls `body` with its parameters, for chunk i on thread i if `chunks` is not 0.
void emitEntry(gpu::GPUModuleOp module, func::FuncOp body, StringRef symbol, unsigned args, int64_t chunks) {
  OpBuilder builder(module.getContext());
  KernelBuilder k(body.getLoc(), builder);
  ImplicitLocOpBuilder &b = k.b;
  b.setInsertionPointToEnd(module.getBody());
  SmallVector<Type> inputs(args, LLVM::LLVMPointerType::get(b.getContext(), 1));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), inputs);
  auto entry = LLVM::LLVMFuncOp::create(b, symbol, type);
  entry->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  entry->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                 b.getDenseI32ArrayAttr({static_cast<int32_t>(chunks ? threads : 1), 1, 1}));
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  auto end = LLVM::ReturnOp::create(b, ValueRange());
  b.setInsertionPoint(end);
  Value count = k.integer(b.getI32Type(), std::max(args, 1u));
  Value array = LLVM::AllocaOp::create(b, k.ptr(), k.ptr(), count, 8u);
  for (unsigned i = 0; i < args; ++i) {
    SmallVector<LLVM::GEPArg> indices = {static_cast<int32_t>(i)};
    Value slot = LLVM::GEPOp::create(b, k.ptr(), k.ptr(), array, indices);
    Value generic = LLVM::AddrSpaceCastOp::create(b, k.ptr(), block->getArgument(i));
    LLVM::StoreOp::create(b, generic, slot);
  }
  if (chunks == 0) {
    func::CallOp::create(b, body, ValueRange(array));
    return;
  }
  Value thread = NVVM::ThreadIdXOp::create(b, b.getI32Type()), cta = NVVM::BlockIdXOp::create(b, b.getI32Type());
  Value wideThread = arith::ExtUIOp::create(b, k.i64(), thread), wideCta = arith::ExtUIOp::create(b, k.i64(), cta);
  Value first = k.mul(wideCta, threads);
  Value chunk = k.add(first, wideThread), all = k.index(chunks);
  Value there = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, chunk, all);
  k.when(there, [&] {
    Value next = k.add(chunk, 1);
    func::CallOp::create(b, body, ValueRange{array, chunk, next});
  });
}

} // namespace

int64_t simpleWorkspaceBytes(ClusterOp cluster) {
  return cpuKernelShape(cluster).workspaceBytes;
}

LogicalResult emitSimpleKernel(gpu::GPUModuleOp module, ClusterOp cluster, StringRef symbol,
                               SmallVectorImpl<KernelEntry> &entries) {
  KernelShape shape = cpuKernelShape(cluster);
  if (shape.chunks == 0)
    return cluster.emitError() << "is no cluster that kernels can be made of";
  OwningOpRef<ModuleOp> functions = ModuleOp::create(cluster.getLoc());
  if (failed(codegen::emitClusterKernel(*functions, cluster, (symbol + "_chunks").str())))
    return failure();
  unsigned args = cluster.getInputs().size() + cluster->getNumResults() + (shape.workspaceBytes > 0 ? 1 : 0);
  SmallVector<func::FuncOp> bodies(functions->getOps<func::FuncOp>());
  for (func::FuncOp body : bodies) {
    body->moveBefore(module.getBody(), module.getBody()->end());
    body.setPrivate();
    bool finish = body.getName().ends_with("_finish");
    std::string name = (symbol + (finish ? "_finish" : "")).str();
    emitEntry(module, body, name, args, finish ? 0 : shape.chunks);
    int64_t grid = finish ? 1 : (shape.chunks + threads - 1) / threads;
    entries.push_back({name, grid, 1, finish ? 1 : threads, 0});
  }
  return success();
}

} // namespace msamp::codegen::cuda
