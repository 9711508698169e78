#include "tests/unit/codegen/Emulator.h"

#include "codegen/cpu/CpuKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include <algorithm>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <ucontext.h>
#include <unistd.h>

using namespace mlir;

namespace {

// The block that runs. Kernels call the functions below, which know it as this.
struct Fiber {
  ucontext_t context;
  std::vector<char> stack;
  bool done = false;
  int64_t exchanges = 0;
};
struct Exchange { // of a warp; several are open at once as some lanes run ahead
  int64_t number = -1, arrived = 0;
  uint32_t values[32];
};
struct Barrier {
  int64_t arrived = 0, generation = 0;
};

constexpr int openExchanges = 4;
std::vector<Fiber> fibers;
std::vector<Exchange> exchanges;
Barrier barriers[16];
ucontext_t scheduler;
int current, threads, block, grid;
int64_t events; // that let others go on
void (*kernel)(void *const *);
void *const *arguments;

void waitForOthers() {
  swapcontext(&fibers[current].context, &scheduler);
}

void runFiber() {
  kernel(arguments);
  fibers[current].done = true;
  ++events;
  waitForOthers();
}

// What all lanes of the warp bring to the exchange that they are at.
const uint32_t *valuesOfWarp(uint32_t value) {
  int warp = current / 32, lane = current % 32;
  int64_t number = fibers[current].exchanges++;
  Exchange &exchange = exchanges[warp * openExchanges + number % openExchanges];
  if (exchange.number != number) {
    exchange.number = number;
    exchange.arrived = 0;
  }
  exchange.values[lane] = value;
  ++exchange.arrived;
  ++events;
  while (exchange.arrived < 32)
    waitForOthers();
  return exchange.values;
}

} // namespace

extern "C" {
int32_t msampEmulatedThread() {
  return current;
}
int32_t msampEmulatedBlock() {
  return block;
}
int32_t msampEmulatedGrid() {
  return grid;
}
uint32_t msampEmulatedExchange(uint32_t value, int32_t bit) {
  return valuesOfWarp(value)[(current % 32) ^ bit];
}
uint32_t msampEmulatedFromLane(uint32_t value, int32_t lane) {
  return valuesOfWarp(value)[lane];
}
uint32_t msampEmulatedAll(uint32_t value) {
  const uint32_t *values = valuesOfWarp(value);
  return std::all_of(values, values + 32, [](uint32_t v) { return v != 0; });
}
uint32_t msampEmulatedMaximum(uint32_t value) {
  const uint32_t *values = valuesOfWarp(value);
  return *std::max_element(values, values + 32);
}
void msampEmulatedBarrier(int32_t id, int32_t count) {
  Barrier &barrier = barriers[id];
  int64_t generation = barrier.generation;
  ++events;
  if (++barrier.arrived == (count < 0 ? threads : count)) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  while (barrier.generation == generation)
    waitForOthers();
}
}

namespace msamp::test {
namespace {

Type onHost(Type type) {
  return isa<LLVM::LLVMPointerType>(type) ? LLVM::LLVMPointerType::get(type.getContext()) : type;
}

// The kernels as functions of a pointer to their arguments, in one address space; what is special to a GPU as calls.
class HostModule {
public:
  explicit HostModule(gpu::GPUModuleOp kernels)
      : b(kernels.getLoc(), kernels.getContext()), module(ModuleOp::create(kernels.getLoc())) {
    b.setInsertionPointToEnd(module->getBody());
    Type i32 = b.getI32Type();
    declare("msampEmulatedThread", i32, {});
    declare("msampEmulatedBlock", i32, {});
    declare("msampEmulatedGrid", i32, {});
    declare("msampEmulatedExchange", i32, {i32, i32});
    declare("msampEmulatedFromLane", i32, {i32, i32});
    declare("msampEmulatedAll", i32, {i32});
    declare("msampEmulatedMaximum", i32, {i32});
    declare("msampEmulatedBarrier", LLVM::LLVMVoidType::get(b.getContext()), {i32, i32});
    for (Operation &op : *kernels.getBody())
      b.clone(op);
    SmallVector<Operation *> ops;
    module->walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops)
      convert(op);
  }

  ImplicitLocOpBuilder b;
  OwningOpRef<ModuleOp> module;

private:
  void declare(StringRef name, Type result, ArrayRef<Type> operands) {
    LLVM::LLVMFuncOp::create(b, name, LLVM::LLVMFunctionType::get(result, operands));
  }
  Value call(StringRef name, TypeRange results, ValueRange operands) {
    auto op = LLVM::CallOp::create(b, results, name, operands);
    return results.empty() ? Value() : op.getResult();
  }
  Value number(int32_t value) { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); }

  void convert(Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &body : region)
        for (BlockArgument argument : body.getArguments())
          argument.setType(onHost(argument.getType()));
    for (OpResult result : op->getResults())
      result.setType(onHost(result.getType()));
    b.setInsertionPoint(op);
    Type i32 = b.getI32Type();
    if (auto func = dyn_cast<LLVM::LLVMFuncOp>(op)) {
      if (!func.isExternal())
        takeArray(func);
    } else if (auto global = dyn_cast<LLVM::GlobalOp>(op)) {
      global.setAddrSpace(0);
      auto array = dyn_cast<LLVM::LLVMArrayType>(global.getGlobalType());
      if (array && array.getNumElements() == 0) { // its size is the launch's
        global.setGlobalType(LLVM::LLVMArrayType::get(array.getElementType(), 227 << 10));
        global.setLinkage(LLVM::Linkage::Internal);
      }
    } else if (isa<NVVM::ThreadIdXOp>(op)) {
      replace(op, call("msampEmulatedThread", i32, {}));
    } else if (isa<NVVM::BlockIdXOp>(op)) {
      replace(op, call("msampEmulatedBlock", i32, {}));
    } else if (auto exchange = dyn_cast<NVVM::ShflOp>(op)) {
      Value value = exchange.getVal();
      Type type = value.getType();
      if (type != i32)
        value = arith::BitcastOp::create(b, i32, value);
      StringRef how = exchange.getKind() == NVVM::ShflKind::bfly ? "msampEmulatedExchange" : "msampEmulatedFromLane";
      Value other = call(how, i32, {value, exchange.getOffset()});
      if (type != i32)
        other = arith::BitcastOp::create(b, type, other);
      replace(op, other);
    } else if (auto move = dyn_cast<LLVM::InlineAsmOp>(op); move && move.getAsmString() == "mov.b32 $0, $1;") {
      replace(op, move.getOperand(0));
    } else if (auto part = dyn_cast<LLVM::InlineAsmOp>(op); part && part.getAsmString().contains("st.global")) {
      for (unsigned i = 0; i < 4; ++i) {
        SmallVector<LLVM::GEPArg> word = {static_cast<int32_t>(i)};
        Value to = LLVM::GEPOp::create(b, part.getOperand(0).getType(), i32, part.getOperand(0), word);
        LLVM::StoreOp::create(b, part.getOperand(i + 1), to, 4);
      }
      op->erase();
    } else if (isa<NVVM::GridDimXOp>(op)) {
      replace(op, call("msampEmulatedGrid", i32, {}));
    } else if (auto vote = dyn_cast<NVVM::VoteSyncOp>(op)) {
      Value mine = arith::ExtUIOp::create(b, i32, vote.getPred());
      Value all = call("msampEmulatedAll", i32, {mine});
      replace(op, arith::TruncIOp::create(b, b.getI1Type(), all));
    } else if (auto maximum = dyn_cast<NVVM::ReduxOp>(op)) {
      replace(op, call("msampEmulatedMaximum", i32, {maximum.getVal()}));
    } else if (isa<NVVM::Barrier0Op>(op)) {
      Value id = number(0), count = number(-1);
      call("msampEmulatedBarrier", {}, {id, count});
      op->erase();
    } else if (auto copy = dyn_cast<NVVM::CpAsyncOp>(op)) { // done at once, which waiting allows
      Type bytes = VectorType::get({static_cast<int64_t>(copy.getSize())}, b.getI8Type());
      Value all = LLVM::LoadOp::create(b, bytes, copy.getSrc(), 1);
      LLVM::StoreOp::create(b, all, copy.getDst(), 1);
      op->erase();
    } else if (isa<NVVM::CpAsyncCommitGroupOp, NVVM::CpAsyncWaitGroupOp, NVVM::SyncWarpOp>(op)) {
      op->erase();
    } else if (auto barrier = dyn_cast<NVVM::BarrierOp>(op)) {
      call("msampEmulatedBarrier", {}, {barrier.getBarrierId(), barrier.getNumberOfThreads()});
      op->erase();
    }
  }

  void replace(Operation *op, Value by) {
    op->getResult(0).replaceAllUsesWith(by);
    op->erase();
  }

  void takeArray(LLVM::LLVMFuncOp func) {
    for (StringRef name : {"nvvm.kernel", "nvvm.reqntid", "nvvm.minctasm", "arg_attrs"})
      func->removeAttr(name);
    Type pointer = LLVM::LLVMPointerType::get(b.getContext());
    func.setFunctionType(LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer}));
    Block &entry = func.getBody().front();
    unsigned count = entry.getNumArguments();
    Value array = entry.addArgument(pointer, func.getLoc());
    b.setInsertionPointToStart(&entry);
    for (unsigned i = 0; i < count; ++i) {
      SmallVector<LLVM::GEPArg> indices = {static_cast<int32_t>(i)};
      Value slot = LLVM::GEPOp::create(b, pointer, pointer, array, indices);
      Value value = LLVM::LoadOp::create(b, pointer, slot);
      entry.getArgument(i).replaceAllUsesWith(value);
    }
    entry.eraseArguments(0, count);
  }
};

} // namespace

Emulator::Emulator(gpu::GPUModuleOp kernels) {
  HostModule host(kernels);
  std::string path = "/tmp/msamp-emulator-XXXXXX";
  close(mkstemp(path.data()));
  bool written = succeeded(codegen::writeHostLibrary(*host.module, path));
  if (written)
    library = dlopen(path.c_str(), RTLD_NOW);
  unlink(path.c_str());
  if (!library)
    throw std::runtime_error(written ? dlerror() : "the kernels do not compile");
}

Emulator::~Emulator() {
  dlclose(library);
}

void Emulator::launch(const codegen::cuda::KernelEntry &entry, std::vector<void *> args) {
  kernel = reinterpret_cast<void (*)(void *const *)>(dlsym(library, entry.symbol.c_str()));
  if (!kernel)
    throw std::runtime_error("no kernel " + entry.symbol);
  arguments = args.data();
  threads = static_cast<int>(entry.block);
  grid = static_cast<int>(entry.gridX);
  for (block = 0; block < entry.gridX; ++block) {
    fibers.resize(entry.block);
    exchanges.assign((entry.block + 31) / 32 * openExchanges, {});
    std::fill(std::begin(barriers), std::end(barriers), Barrier());
    for (Fiber &fiber : fibers) {
      getcontext(&fiber.context);
      fiber.stack.resize(128 << 10);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = nullptr;
      fiber.done = false;
      fiber.exchanges = 0;
      makecontext(&fiber.context, runFiber, 0);
    }
    for (size_t left = fibers.size(); left > 0;) {
      int64_t before = events;
      left = 0;
      for (int i = 0; i < threads; ++i) {
        current = i;
        if (!fibers[i].done)
          swapcontext(&scheduler, &fibers[i].context);
        left += !fibers[i].done;
      }
      if (left > 0 && events == before)
        throw std::runtime_error(entry.symbol + ": threads wait for each other for ever");
    }
  }
}

} // namespace msamp::test
