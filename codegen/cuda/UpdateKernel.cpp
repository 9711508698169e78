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
constexpr int64_t piece = 4; // values that are computed together: of few at a time few are in registers
// On a multiprocessor. The more there are the more of what they read is on its way: as many as need no register
// spilled; 6 leave a thread 80. FP8 conversions by integer arithmetic and Blackwell's packed FP32 arithmetic take more
// of them.
int64_t minCtas(const Target &target) {
  return target.capability == 90 ? 6 : 4;
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
    // Loads that may alias stores stay where they are written.
    func.removeArgAttr(Grad, LLVM::LLVMDialect::getNoAliasAttrName());
    args.assign(func.getBody().args_begin(), func.getBody().args_end());
    // All at once: what is read by them waits for one access.
    SmallVector<Value> hyper;
    for (int h = 0; h < codegen::UpdateHyperCount; ++h)
      hyper.push_back(scalar(Hyper, k.index(h)));
    emitLane(hyper);
  }

private:
  Type element(Storage type) { return partition::elementOf(k.b.getContext(), type); }
  Value load(UpdateArgument which, Value at, Type element) {
    Value from = k.address(args[which], at, element);
    return k.load(from, element, 0);
  }

  // A lane's values from `at` on as pieces: read and written as 32-bit words at once, of which each piece has as many
  // as an element has bytes.
  VectorType words(int64_t count) { return VectorType::get({count}, k.i32()); }
  SmallVector<Value> loadPieces(UpdateArgument which, Value at, Storage type) {
    const int64_t bytes = partition::bytesOf(type);
    Type memory = k.memoryType(element(type));
    Value from = k.address(args[which], at, memory);
    Value loaded = k.load(from, k.i32(), chunk / piece * bytes, chunk * bytes);
    SmallVector<Value> pieces;
    for (int64_t i = 0; i < chunk / piece; ++i) {
      SmallVector<int64_t> offset = {i * bytes}, size = {bytes}, stride = {1};
      Value part = vector::ExtractStridedSliceOp::create(k.b, loaded, offset, size, stride);
      part = vector::BitCastOp::create(k.b, widen(memory, piece), part);
      if (memory != element(type))
        part = arith::BitcastOp::create(k.b, widen(element(type), piece), part);
      pieces.push_back(part);
    }
    return pieces;
  }
  void storePieces(ArrayRef<Value> pieces, UpdateArgument which, Value at, Storage type) {
    const int64_t bytes = partition::bytesOf(type);
    Type memory = k.memoryType(element(type));
    Value all = k.integer(words(chunk / piece * bytes), 0);
    for (auto [i, value] : llvm::enumerate(pieces)) {
      Value part = value;
      if (memory != element(type))
        part = arith::BitcastOp::create(k.b, widen(memory, piece), part);
      part = vector::BitCastOp::create(k.b, words(bytes), part);
      SmallVector<int64_t> offset = {static_cast<int64_t>(i) * bytes}, stride = {1};
      all = vector::InsertStridedSliceOp::create(k.b, part, all, offset, stride);
    }
    Value to = k.address(args[which], at, memory);
    k.store(all, to, k.i32(), chunk * bytes);
  }
  Value scalar(UpdateArgument which, Value at) { return load(which, at, k.f32()); }

  Value larger(UpdateMath &math, Value most, Value v) {
    Value magnitude = math.magnitude(v);
    return most ? arith::MaximumFOp::create(k.b, most, magnitude).getResult() : magnitude;
  }
  // Magnitudes order as the integers that their bits are; a NaN is above all.
  Value bitsOf(Value magnitude) { return arith::BitcastOp::create(k.b, k.i32(), magnitude); }
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
  Value momentScale(UpdateMath &math, Storage type, Value most) {
    if (!isBlockScaled(type))
      return {};
    Value bits = blockMaximum(bitsOf(most));
    Value amax = arith::BitcastOp::create(k.b, k.f32(), bits);
    return math.scaleOf(type, amax);
  }

  void emitLane(ArrayRef<Value> hyper) {
    ImplicitLocOpBuilder &b = k.b;
    const bool hasMaster = storage.master != Storage::None, hasV = storage.v != Storage::None;
    const Storage sourceType = hasMaster ? storage.master : storage.weight;
    // Behind the last block lanes compute it once more and store nothing: exchanges are for whole warps. Others may
    // have stored it already, so that their results mean nothing.
    Value blocks = load(Blocks, k.index(0), k.i64()), count = k.resize(blocks, k.i32());
    thread = k.threadId();
    Value inCta = k.divide(thread, lanesPerBlock);
    Value lane = arith::AndIOp::create(b, thread, k.integer(lanesPerBlock - 1));
    Value asked = k.add(k.mul(k.blockId(), blocksAtOnce), inCta);
    Value there = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, asked, count);
    Value lastBlock = k.add(count, -1);
    Value read = arith::MinUIOp::create(b, asked, lastBlock);
    Value block = k.resize(read, k.i64());
    Value inBlock = k.resize(k.mul(lane, chunk), k.i64());
    const int64_t vectors = valuesPerThread / chunk;

    // Everything is on its way before anything is computed.
    auto placeOf = [&](Value block, int64_t i) {
      Value start = k.add(k.mul(block, partition::kBlock), inBlock);
      return k.add(start, i * chunk * lanesPerBlock);
    };
    SmallVector<UpdateVectors> old;
    for (int64_t i = 0; i < vectors; ++i) {
      Value at = placeOf(block, i);
      SmallVector<Value> source = loadPieces(hasMaster ? Master : Weight, at, sourceType);
      SmallVector<Value> grad = loadPieces(Grad, at, storage.grad), m = loadPieces(M, at, storage.m), v;
      if (hasV)
        v = loadPieces(V, at, storage.v);
      for (size_t p = 0; p < source.size(); ++p)
        old.push_back({source[p], grad[p], m[p], hasV ? v[p] : Value()});
    }
    // No instruction, but what follows is not moved before it: the scales wait for their block's parameter to be known.
    NVVM::SyncWarpOp::create(b, k.integer(-1));
    Value ownerPlace = k.address(args[Owner], block, k.i32());
    Value number = LLVM::LoadOp::create(b, k.i32(), ownerPlace, 4, /*isVolatile=*/true);
    Value owner = k.resize(number, k.i64());
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
    // Older than it could be, which costs few atomic operations more than waiting for it at the end would cost time.
    // Volatile, so that other CTAs' are seen.
    Value amaxPlace = k.address(args[Amax], owner, k.i32());
    Value knownAmax = LLVM::LoadOp::create(b, k.i32(), amaxPlace, 4, /*isVolatile=*/true);

    UpdateMath math(k, optimizer, hyper, piece);
    math.setScales(scales);
    SmallVector<Value> m, v, master, weight;
    Value mostM, mostV, mostW;
    for (const UpdateVectors &stored : old) {
      UpdateVectors updated = math.step(stored);
      m.push_back(updated.m);
      mostM = larger(math, mostM, updated.m);
      if (hasV) {
        v.push_back(updated.v);
        mostV = larger(math, mostV, updated.v);
      }
      mostW = larger(math, mostW, updated.source);
      if (hasMaster)
        master.push_back(math.stored(updated.source, storage.master, masterScale));
      weight.push_back(math.stored(updated.source, storage.weight, weightScale));
    }
    // A step that is skipped is computed for nothing: a branch around it would stand before what it reads.
    Value zero = k.constant(k.f32(), 0.0);
    Value go = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, hyper[codegen::Skip], zero);
    Value writes = k.both(there, go);
    // Places are computed once more, from the block that was asked for: those that were read from are not kept for
    // long.
    Value to = k.resize(asked, k.i64());
    auto write = [&](UpdateArgument which, Storage type, ArrayRef<Value> pieces) {
      const int64_t each = chunk / piece;
      for (int64_t i = 0; i < vectors && type != Storage::None; ++i)
        storePieces(pieces.slice(i * each, each), which, placeOf(to, i), type);
    };
    k.when(writes, [&] {
      write(Master, storage.master, master);
      write(Weight, storage.weight, weight);
    });
    Value newMScale = momentScale(math, storage.m, mostM), newVScale;
    if (hasV)
      newVScale = momentScale(math, storage.v, mostV);
    k.when(writes, [&] {
      for (Value &value : m)
        value = math.stored(value, storage.m, newMScale);
      write(M, storage.m, m);
      for (Value &value : v)
        value = math.stored(value, storage.v, newVScale);
      write(V, storage.v, v);
      whenFirstLane(lanesPerBlock, [&] {
        if (newMScale)
          k.store(newMScale, k.address(args[MScale], to, k.f32()), k.f32());
        if (newVScale)
          k.store(newVScale, k.address(args[VScale], to, k.f32()), k.f32());
      });
    });
    Value amax = bitsOf(mostW), nothing = k.integer(0);
    amax = k.select(writes, amax, nothing);
    recordAmax(amax, number, amaxPlace, knownAmax);
  }

  // One candidate a warp where its blocks are all of one parameter, else one a block. Most find a larger one there and
  // need no atomic operation.
  void recordAmax(Value amax, Value owner, Value place, Value known) {
    ImplicitLocOpBuilder &b = k.b;
    auto raise = [&](Value candidate) {
      Value larger = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, candidate, known);
      k.when(larger, [&] {
        LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umax, place, candidate, LLVM::AtomicOrdering::monotonic,
                                  "device");
      });
    };
    Value all = k.integer(-1), laneZero = k.integer(0), clamp = k.integer(31);
    Value first = NVVM::ShflOp::create(b, k.i32(), all, owner, laneZero, clamp, NVVM::ShflKind::idx, UnitAttr());
    Value same = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, owner, first);
    Value alike = NVVM::VoteSyncOp::create(b, b.getI1Type(), all, same, NVVM::VoteSyncKind::all);
    auto branch = scf::IfOp::create(b, alike, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value most = NVVM::ReduxOp::create(b, k.i32(), amax, NVVM::ReduxKind::UMAX, all);
    whenFirstLane(32, [&] { raise(most); });
    b.setInsertionPointToStart(branch.elseBlock());
    Value ofOne = blockMaximum(amax);
    whenFirstLane(lanesPerBlock, [&] { raise(ofOne); });
  }

  OpBuilder builder;
  CudaBuilder k;
  gpu::GPUModuleOp module;
  StringRef symbol;
  const ClassStorage &storage;
  StringRef optimizer;
  const Target &target;
  int64_t chunk; // values that a lane reads at once; the next ones are chunk * lanesPerBlock further on
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
