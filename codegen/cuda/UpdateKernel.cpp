// Eight lanes share a block of 128 values and so its scales; a lane has 16 of them in registers from the only load to
// the only store.
#include "codegen/cuda/UpdateKernel.h"

#include "codegen/cpu/UpdateKernel.h"
#include "codegen/kernel/ScaleOf.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

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
    vec = VectorType::get({chunk}, k.f32());
  }

  void run() {
    ImplicitLocOpBuilder &b = k.b;
    b.setInsertionPointToEnd(module.getBody());
    auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 1);
    SmallVector<Type> inputs(UpdateArgumentCount, pointer);
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), inputs);
    auto func = LLVM::LLVMFuncOp::create(b, symbol, type);
    func->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
    func->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), b.getDenseI32ArrayAttr({threads, 1, 1}));
    func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(static_cast<int32_t>(minCtas(target))));
    for (int i = 0; i < UpdateArgumentCount; ++i)
      func.setArgAttr(static_cast<unsigned>(i), LLVM::LLVMDialect::getNoAliasAttrName(), b.getUnitAttr());
    Block *entry = func.addEntryBlock(b);
    args.assign(entry->args_begin(), entry->args_end());
    b.setInsertionPointToStart(entry);
    auto end = LLVM::ReturnOp::create(b, ValueRange());
    b.setInsertionPoint(end);
    Value skip = loadHyper(codegen::Skip), zero = k.constant(k.f32(), 0.0);
    Value go = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, skip, zero);
    k.when(go, [&] {
      for (int h = 0; h < codegen::UpdateHyperCount; ++h)
        values[h] = loadHyper(h);
      emitLane();
    });
  }

private:
  Type i32() { return k.b.getI32Type(); }
  Type element(Storage s) {
    switch (s) {
    case Storage::BF16:
      return k.b.getBF16Type();
    case Storage::F16:
      return k.b.getF16Type();
    case Storage::E4M3:
      return Float8E4M3FNType::get(k.b.getContext());
    case Storage::E5M2:
      return Float8E5M2Type::get(k.b.getContext());
    default:
      return k.f32();
    }
  }
  static bool blockScaled(Storage s) { return s == Storage::F16 || s == Storage::E4M3 || s == Storage::E5M2; }
  static Type memoryType(Type element, OpBuilder &b) {
    return element.getIntOrFloatBitWidth() == 8 ? Type(b.getI8Type()) : element;
  }

  Value address(Value base, Value at, Type element) {
    SmallVector<LLVM::GEPArg> indices = {at};
    return LLVM::GEPOp::create(k.b, base.getType(), memoryType(element, k.b), base, indices);
  }
  Value load(Value base, Value at, Type element, int64_t width) {
    Type memory = memoryType(element, k.b);
    unsigned bytes = memory.getIntOrFloatBitWidth() / 8 * static_cast<unsigned>(std::max<int64_t>(width, 1));
    Value from = address(base, at, element);
    Value v = LLVM::LoadOp::create(k.b, k.widen(memory, width), from, std::min(bytes, 16u));
    return memory == element ? v : arith::BitcastOp::create(k.b, k.widen(element, width), v).getResult();
  }
  void store(Value v, Value base, Value at, Type element, int64_t width) {
    Type memory = memoryType(element, k.b);
    unsigned bytes = memory.getIntOrFloatBitWidth() / 8 * static_cast<unsigned>(std::max<int64_t>(width, 1));
    if (memory != element)
      v = arith::BitcastOp::create(k.b, k.widen(memory, width), v);
    Value to = address(base, at, element);
    LLVM::StoreOp::create(k.b, v, to, std::min(bytes, 16u));
  }
  Value loadHyper(int which) { return load(args[Hyper], k.index(which), k.f32(), 0); }
  Value ofOwner(UpdateArgument which) { return load(args[which], owner, k.f32(), 0); }
  Value ofBlock(UpdateArgument which) { return load(args[which], block, k.f32(), 0); }
  Value inverse(Value scale) {
    Value one = k.constant(k.f32(), 1.0);
    return arith::DivFOp::create(k.b, one, scale);
  }
  Value mul(Value x, Value y) { return arith::MulFOp::create(k.b, x, y); }
  Value add(Value x, Value y) { return arith::AddFOp::create(k.b, x, y); }
  Value wide(Value scalar) { return k.splat(scalar, chunk); }
  Value word(int64_t value) { return k.integer(i32(), value); }

  Value read(UpdateArgument which, Storage type, Value at) { return load(args[which], at, element(type), chunk); }
  // To FP32, times `factor` where there is one.
  Value widened(Value v, Storage type, Value factor) {
    if (type != Storage::F32)
      v = arith::ExtFOp::create(k.b, vec, v);
    return factor ? mul(v, factor) : v;
  }
  void write(UpdateArgument which, Storage type, Value at, Value v, Value factor) {
    if (factor)
      v = mul(v, factor);
    if (type != Storage::F32)
      v = arith::TruncFOp::create(k.b, VectorType::get({chunk}, element(type)), v);
    store(v, args[which], at, element(type), chunk);
  }

  // The largest magnitude of a lane's values as the bits of an FP32, which order as integers do; a NaN is above all.
  Value magnitude(ArrayRef<Value> vectors) {
    Value most;
    for (Value v : vectors) {
      Value a = math::AbsFOp::create(k.b, v);
      most = most ? arith::MaximumFOp::create(k.b, most, a).getResult() : a;
    }
    most = vector::ReductionOp::create(k.b, vector::CombiningKind::MAXIMUMF, most);
    return arith::BitcastOp::create(k.b, i32(), most);
  }
  Value exchange(Value v, int64_t mask) {
    Value all = word(-1), offset = word(mask), clamp = word(31);
    return NVVM::ShflOp::create(k.b, i32(), all, v, offset, clamp, NVVM::ShflKind::bfly, UnitAttr());
  }
  // Over the lanes of a block, on all of them.
  Value blockMaximum(Value bits) {
    for (int64_t mask = 1; mask < lanesPerBlock; mask *= 2) {
      Value other = exchange(bits, mask);
      bits = arith::MaxUIOp::create(k.b, bits, other);
    }
    return bits;
  }
  void whenFirstLane(int64_t lanes, Value condition, const std::function<void()> &body) {
    Value last = word(lanes - 1), zero = word(0);
    Value within = arith::AndIOp::create(k.b, thread, last);
    Value first = arith::CmpIOp::create(k.b, arith::CmpIPredicate::eq, within, zero);
    if (condition)
      first = arith::AndIOp::create(k.b, first, condition);
    k.when(first, body);
  }

  // The factor of a narrow moment; its scale is written later, with everything else.
  Value momentScale(Storage type, ArrayRef<Value> v) {
    if (!blockScaled(type))
      return {};
    Value bits = blockMaximum(magnitude(v));
    Value amax = arith::BitcastOp::create(k.b, k.f32(), bits);
    return emitScaleOf(k.b, amax, element(type), 0);
  }

  void emitLane() {
    ImplicitLocOpBuilder &b = k.b;
    bool hasMaster = storage.master != Storage::None, hasV = storage.v != Storage::None;
    thread = NVVM::ThreadIdXOp::create(b, i32());
    Value cta = NVVM::BlockIdXOp::create(b, i32());
    Value lanes = word(lanesPerBlock), laneMask = word(lanesPerBlock - 1), chunkSize = word(chunk);
    Value inCta = arith::DivUIOp::create(b, thread, lanes);
    Value lane = arith::AndIOp::create(b, thread, laneMask);
    Value wideCta = arith::ExtUIOp::create(b, k.i64(), cta);
    Value wideInCta = arith::ExtUIOp::create(b, k.i64(), inCta);
    Value asked = k.add(k.mul(wideCta, blocksAtOnce), wideInCta);
    // Behind the last block lanes compute it once more and store nothing: exchanges are for whole warps. Others may
    // have stored it already, so that their results mean nothing.
    Value count = load(args[Blocks], k.index(0), k.i64(), 0);
    Value there = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, asked, count);
    Value minusOne = k.index(-1);
    Value lastBlock = k.add(count, minusOne);
    block = arith::MinUIOp::create(b, asked, lastBlock);
    owner = load(args[Owner], block, i32(), 0);
    owner = arith::ExtUIOp::create(b, k.i64(), owner);
    Value inBlock = arith::MulIOp::create(b, lane, chunkSize);
    inBlock = arith::ExtUIOp::create(b, k.i64(), inBlock);
    Value start = k.add(k.mul(block, partition::kBlock), inBlock);
    const int64_t vectors = valuesPerThread / chunk;

    // Everything is on its way before anything is computed.
    SmallVector<Value> at, p0, g0, m0, v0;
    for (int64_t i = 0; i < vectors; ++i)
      at.push_back(k.add(start, i * chunk * lanesPerBlock));
    for (int64_t i = 0; i < vectors; ++i) {
      p0.push_back(hasMaster ? read(Master, storage.master, at[i]) : read(Weight, storage.weight, at[i]));
      g0.push_back(read(Grad, storage.grad, at[i]));
      m0.push_back(read(M, storage.m, at[i]));
      if (hasV)
        v0.push_back(read(V, storage.v, at[i]));
    }
    Value blockScales = LLVM::PtrToIntOp::create(b, k.i64(), args[GradBlockScale]), none = k.index(0);
    Value perParameter = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, blockScales, none);
    Value gradScales = arith::SelectOp::create(b, perParameter, args[GradScale], args[GradBlockScale]);
    Value gradIndex = arith::SelectOp::create(b, perParameter, owner, block);
    Value gradScale = load(gradScales, gradIndex, k.f32(), 0);
    Value gradFactor = wide(mul(inverse(gradScale), values[codegen::GradFactor]));
    Value sourceFactor, weightFactor, masterFactor, mFactor, vFactor;
    if (hasMaster ? storage.masterScaled : storage.weightScaled)
      sourceFactor = wide(inverse(ofOwner(hasMaster ? OldMasterScale : OldWeightScale)));
    if (storage.weightScaled)
      weightFactor = wide(ofOwner(NewWeightScale));
    if (storage.masterScaled)
      masterFactor = wide(ofOwner(NewMasterScale));
    if (blockScaled(storage.m))
      mFactor = wide(inverse(ofBlock(MScale)));
    if (hasV && blockScaled(storage.v))
      vFactor = wide(inverse(ofBlock(VScale)));

    Value one = k.constant(k.f32(), 1.0);
    Value keep1 = arith::SubFOp::create(b, one, values[codegen::Beta1]);
    Value keep2 = arith::SubFOp::create(b, one, values[codegen::Beta2]);
    Value b1 = wide(values[codegen::Beta1]), b2 = wide(values[codegen::Beta2]), k1 = wide(keep1), k2 = wide(keep2);
    Value lr = wide(values[codegen::LearningRate]), decay = wide(values[codegen::WeightDecay]);
    Value epsilon = wide(values[codegen::Epsilon]);
    Value biasM = wide(values[codegen::BiasM]), biasV = wide(values[codegen::BiasV]);
    SmallVector<Value> m, v, w;
    for (int64_t i = 0; i < vectors; ++i) {
      Value p = widened(p0[i], hasMaster ? storage.master : storage.weight, sourceFactor);
      Value g = widened(g0[i], storage.grad, gradFactor);
      if (optimizer != "adamw")
        g = add(g, mul(decay, p)); // L2 regularisation
      Value oldM = widened(m0[i], storage.m, mFactor), step;
      if (optimizer == "sgd") {
        Value newM = add(mul(b1, oldM), g);
        m.push_back(newM);
        step = newM;
      } else {
        Value kept = mul(b1, oldM), fresh = mul(k1, g);
        m.push_back(add(kept, fresh));
        Value oldV = widened(v0[i], storage.v, vFactor);
        Value square = mul(g, g);
        Value keptV = mul(b2, oldV), freshV = mul(k2, square);
        v.push_back(add(keptV, freshV));
        Value mHat = mul(m.back(), biasM), vHat = mul(v.back(), biasV);
        Value root = math::SqrtOp::create(b, vHat);
        Value denominator = add(root, epsilon);
        step = arith::DivFOp::create(b, mHat, denominator);
      }
      if (optimizer == "adamw")
        step = add(step, mul(decay, p));
      Value change = mul(lr, step);
      w.push_back(arith::SubFOp::create(b, p, change));
    }
    Value newMScale = momentScale(storage.m, m), newVScale;
    if (hasV)
      newVScale = momentScale(storage.v, v);
    Value amax = magnitude(w), nothing = word(0);
    amax = arith::SelectOp::create(b, there, amax, nothing);
    k.when(there, [&] {
      for (int64_t i = 0; i < vectors; ++i) {
        write(M, storage.m, at[i], m[i], newMScale ? wide(newMScale) : Value());
        if (hasV)
          write(V, storage.v, at[i], v[i], newVScale ? wide(newVScale) : Value());
        if (hasMaster)
          write(Master, storage.master, at[i], w[i], masterFactor);
        write(Weight, storage.weight, at[i], w[i], weightFactor);
      }
      whenFirstLane(lanesPerBlock, {}, [&] {
        if (newMScale)
          store(newMScale, args[MScale], block, k.f32(), 0);
        if (newVScale)
          store(newVScale, args[VScale], block, k.f32(), 0);
      });
    });
    recordAmax(amax);
  }

  // One candidate a warp where its blocks are all of one parameter, else one a block. Most find a larger one there and
  // need no atomic operation.
  void recordAmax(Value amax) {
    ImplicitLocOpBuilder &b = k.b;
    Value number = arith::TruncIOp::create(b, i32(), owner);
    Value all = word(-1), laneZero = word(0), clamp = word(31);
    Value first = NVVM::ShflOp::create(b, i32(), all, number, laneZero, clamp, NVVM::ShflKind::idx, UnitAttr());
    Value same = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, first);
    Value alike = NVVM::VoteSyncOp::create(b, b.getI1Type(), all, same, NVVM::VoteSyncKind::all);
    auto branch = scf::IfOp::create(b, alike, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    Value most = NVVM::ReduxOp::create(b, i32(), amax, NVVM::ReduxKind::UMAX, all);
    whenFirstLane(32, {}, [&] { raiseAmax(most); });
    b.setInsertionPointToStart(branch.elseBlock());
    Value ofOne = blockMaximum(amax);
    whenFirstLane(lanesPerBlock, {}, [&] { raiseAmax(ofOne); });
  }
  void raiseAmax(Value candidate) {
    ImplicitLocOpBuilder &b = k.b;
    Value place = address(args[Amax], owner, i32());
    // Volatile, or it could be read before the values are computed and be older than need be.
    Value known = LLVM::LoadOp::create(b, i32(), place, 4, /*isVolatile=*/true);
    Value larger = arith::CmpIOp::create(b, arith::CmpIPredicate::ugt, candidate, known);
    k.when(larger, [&] {
      LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::umax, place, candidate, LLVM::AtomicOrdering::monotonic,
                                "device");
    });
  }

  OpBuilder builder;
  KernelBuilder k;
  gpu::GPUModuleOp module;
  StringRef symbol;
  const ClassStorage &storage;
  StringRef optimizer;
  const Target &target;
  int64_t chunk; // values that a lane reads in one piece; pieces are chunk * lanesPerBlock apart
  VectorType vec;
  SmallVector<Value> args;
  Value values[codegen::UpdateHyperCount], thread, block, owner;
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
