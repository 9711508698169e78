// Eight lanes share a block of 128 values and so its scales; a lane has 16 of them in registers from the only load to
// the only store.
#include "codegen/cuda/UpdateKernel.h"

#include "codegen/cuda/CudaBuilder.h"
#include "codegen/kernel/UpdateMath.h"
#include "passes/partition/Types.h"

using namespace mlir;

namespace msamp::codegen::cuda {
namespace {

using partition::ClassStorage;
using partition::Storage;

constexpr int64_t threads = 128, valuesPerThread = 16, lanesPerBlock = partition::kBlock / valuesPerThread;
constexpr int64_t blocksAtOnce = threads / lanesPerBlock;
// On a multiprocessor: 80 registers a thread. Blackwell's packed FP32 arithmetic takes more, in pairs.
int64_t minCtas(const Target &target) {
  return target.capability >= 100 ? 5 : 6;
}

class UpdateEmitter {
public:
  UpdateEmitter(gpu::GPUModuleOp module, StringRef symbol, const ClassStorage &storage, StringRef optimizer,
                const Target &target)
      : builder(module.getContext()), k(UnknownLoc::get(module.getContext()), builder), module(module), symbol(symbol),
        storage(storage), optimizer(optimizer), target(target) {
    // Lanes read 16 bytes at once of the widest array, so that a warp's accesses are whole lines.
    bool wide = false;
    for (Storage s : {storage.weight, storage.master, storage.grad, storage.m, storage.v})
      wide |= s == Storage::F32;
    chunk = wide ? 4 : valuesPerThread;
  }

  void run() {
    auto func = k.kernel(module, symbol, UpdateArgumentCount, threads, minCtas(target));
    args.assign(func.getBody().args_begin(), func.getBody().args_end());
    Value skip = scalar(Hyper, k.index(codegen::Skip)), zero = k.constant(k.f32(), 0.0);
    Value go = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OEQ, skip, zero);
    k.when(go, [&] {
      SmallVector<Value> hyper;
      for (int h = 0; h < codegen::UpdateHyperCount; ++h)
        hyper.push_back(scalar(Hyper, k.index(h)));
      emitLane(hyper);
    });
  }

private:
  Type element(Storage type) { return partition::elementOf(k.b.getContext(), type); }
  Value load(UpdateArgument which, Value at, Type element, int64_t width) {
    Value from = k.address(args[which], at, element);
    return k.load(from, element, width, k.bytesOf(element) * width);
  }
  void store(Value v, UpdateArgument which, Value at, Type element, int64_t width) {
    Value to = k.address(args[which], at, element);
    k.store(v, to, element, k.bytesOf(element) * width);
  }
  Value scalar(UpdateArgument which, Value at) { return load(which, at, k.f32(), 0); }

  // The largest magnitude of a lane's values as the bits of an FP32, which order as integers do; a NaN is above all.
  Value magnitude(UpdateMath &math, ArrayRef<Value> vectors) {
    return arith::BitcastOp::create(k.b, k.i32(), math.magnitude(vectors));
  }
  // Over the lanes of a block, on all of them.
  Value blockMaximum(Value bits) {
    for (int64_t mask = 1; mask < lanesPerBlock; mask *= 2) {
      Value other = k.exchange(bits, mask);
      bits = arith::MaxUIOp::create(k.b, bits, other);
    }
    return bits;
  }
  void whenFirstLane(int64_t lanes, const std::function<void()> &body) {
    Value within = arith::AndIOp::create(k.b, thread, k.integer(lanes - 1));
    k.when(k.equal(within, 0), body);
  }

  // The scale of a block of a narrow moment; it is written later, with everything else.
  Value momentScale(UpdateMath &math, Storage type, ArrayRef<Value> v) {
    if (!isBlockScaled(type))
      return {};
    Value bits = blockMaximum(magnitude(math, v));
    Value amax = arith::BitcastOp::create(k.b, k.f32(), bits);
    return math.scaleOf(type, amax);
  }

  void emitLane(ArrayRef<Value> hyper) {
    ImplicitLocOpBuilder &b = k.b;
    const bool hasMaster = storage.master != Storage::None, hasV = storage.v != Storage::None;
    const Storage sourceType = hasMaster ? storage.master : storage.weight;
    thread = k.threadId();
    Value cta = k.resize(k.blockId(), k.i64());
    Value inCta = k.resize(k.divide(thread, lanesPerBlock), k.i64());
    Value lane = arith::AndIOp::create(b, thread, k.integer(lanesPerBlock - 1));
    Value asked = k.add(k.mul(cta, blocksAtOnce), inCta);
    // Behind the last block lanes compute it once more and store nothing: exchanges are for whole warps. Others may
    // have stored it already, so that their results mean nothing.
    Value count = load(Blocks, k.index(0), k.i64(), 0);
    Value there = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, asked, count);
    Value lastBlock = k.add(count, -1);
    Value block = arith::MinUIOp::create(b, asked, lastBlock);
    Value number = load(Owner, block, k.i32(), 0);
    Value owner = k.resize(number, k.i64());
    Value inBlock = k.resize(k.mul(lane, chunk), k.i64());
    Value start = k.add(k.mul(block, partition::kBlock), inBlock);
    const int64_t vectors = valuesPerThread / chunk;

    // Everything is on its way before anything is computed.
    SmallVector<Value> at;
    SmallVector<UpdateVectors> old(vectors);
    for (int64_t i = 0; i < vectors; ++i)
      at.push_back(k.add(start, i * chunk * lanesPerBlock));
    for (int64_t i = 0; i < vectors; ++i) {
      old[i].source = load(hasMaster ? Master : Weight, at[i], element(sourceType), chunk);
      old[i].grad = load(Grad, at[i], element(storage.grad), chunk);
      old[i].m = load(M, at[i], element(storage.m), chunk);
      if (hasV)
        old[i].v = load(V, at[i], element(storage.v), chunk);
    }
    Value blockScales = LLVM::PtrToIntOp::create(b, k.i64(), args[GradBlockScale]), none = k.index(0);
    Value perParameter = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, blockScales, none);
    Value gradScales = arith::SelectOp::create(b, perParameter, args[GradScale], args[GradBlockScale]);
    Value gradIndex = arith::SelectOp::create(b, perParameter, owner, block);
    UpdateScales scales;
    scales.grad = k.load(k.address(gradScales, gradIndex, k.f32()), k.f32(), 0);
    if (hasMaster ? storage.masterScaled : storage.weightScaled)
      scales.source = scalar(hasMaster ? OldMasterScale : OldWeightScale, owner);
    Value weightScale = storage.weightScaled ? scalar(NewWeightScale, owner) : Value();
    Value masterScale = storage.masterScaled ? scalar(NewMasterScale, owner) : Value();
    if (isBlockScaled(storage.m))
      scales.m = scalar(MScale, block);
    if (hasV && isBlockScaled(storage.v))
      scales.v = scalar(VScale, block);

    UpdateMath math(k, optimizer, hyper, chunk);
    math.setScales(scales);
    SmallVector<Value> m, v, w;
    for (const UpdateVectors &stored : old) {
      UpdateVectors updated = math.step(stored);
      m.push_back(updated.m), v.push_back(updated.v), w.push_back(updated.source);
    }
    Value newMScale = momentScale(math, storage.m, m), newVScale;
    if (hasV)
      newVScale = momentScale(math, storage.v, v);
    Value amax = magnitude(math, w), nothing = k.integer(0);
    amax = k.select(there, amax, nothing);
    k.when(there, [&] {
      for (int64_t i = 0; i < vectors; ++i) {
        store(math.stored(m[i], storage.m, newMScale), M, at[i], element(storage.m), chunk);
        if (hasV)
          store(math.stored(v[i], storage.v, newVScale), V, at[i], element(storage.v), chunk);
        if (hasMaster)
          store(math.stored(w[i], storage.master, masterScale), Master, at[i], element(storage.master), chunk);
        store(math.stored(w[i], storage.weight, weightScale), Weight, at[i], element(storage.weight), chunk);
      }
      whenFirstLane(lanesPerBlock, [&] {
        if (newMScale)
          store(newMScale, MScale, block, k.f32(), 0);
        if (newVScale)
          store(newVScale, VScale, block, k.f32(), 0);
      });
    });
    recordAmax(amax, owner);
  }

  // One candidate a warp where its blocks are all of one parameter, else one a block. Most find a larger one there and
  // need no atomic operation.
  void recordAmax(Value amax, Value owner) {
    ImplicitLocOpBuilder &b = k.b;
    Value number = k.resize(owner, k.i32());
    Value all = k.integer(-1), laneZero = k.integer(0), clamp = k.integer(31);
    Value first = NVVM::ShflOp::create(b, k.i32(), all, number, laneZero, clamp, NVVM::ShflKind::idx, UnitAttr());
    Value same = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, first);
    Value alike = NVVM::VoteSyncOp::create(b, b.getI1Type(), all, same, NVVM::VoteSyncKind::all);
    auto branch = scf::IfOp::create(b, alike, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value most = NVVM::ReduxOp::create(b, k.i32(), amax, NVVM::ReduxKind::UMAX, all);
    whenFirstLane(32, [&] { raiseAmax(most, owner); });
    b.setInsertionPointToStart(branch.elseBlock());
    Value ofOne = blockMaximum(amax);
    whenFirstLane(lanesPerBlock, [&] { raiseAmax(ofOne, owner); });
  }
  void raiseAmax(Value candidate, Value owner) {
    ImplicitLocOpBuilder &b = k.b;
    Value place = k.address(args[Amax], owner, k.i32());
    // Volatile, or it could be read before the values are computed and be older than need be.
    Value known = LLVM::LoadOp::create(b, k.i32(), place, 4, /*isVolatile=*/true);
    Value larger = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, candidate, known);
    k.when(larger, [&] {
      LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umax, place, candidate, LLVM::AtomicOrdering::monotonic,
                                "device");
    });
  }

  OpBuilder builder;
  CudaBuilder k;
  gpu::GPUModuleOp module;
  StringRef symbol;
  const ClassStorage &storage;
  StringRef optimizer;
  const Target &target;
  int64_t chunk; // values that a lane reads in one piece; pieces are chunk * lanesPerBlock apart
  SmallVector<Value> args;
  Value thread;
};

} // namespace

LogicalResult emitUpdateKernel(gpu::GPUModuleOp module, StringRef symbol, const ClassStorage &storage,
                               StringRef optimizer, const Target &target, KernelEntry &entry, int64_t &blocksPerCta) {
  UpdateEmitter(module, symbol, storage, optimizer, target).run();
  entry = {symbol.str(), 0, 1, threads, 0};
  blocksPerCta = blocksAtOnce;
  return success();
}

} // namespace msamp::codegen::cuda
