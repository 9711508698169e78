// The update of one block of 128 parameters at a time: everything is read once, computed in FP32 and written back in
// its storage type; no wide copy of a state exists in memory.
#include "codegen/cpu/UpdateKernel.h"

#include "passes/partition/Types.h"

using namespace mlir;

namespace msamp::codegen {
namespace {

using partition::ClassStorage;
using partition::Storage;

constexpr int64_t width = 16, vectors = partition::kBlock / width;

class UpdateEmitter {
public:
  UpdateEmitter(ModuleOp module, StringRef symbol, const ClassStorage &storage, StringRef optimizer)
      : builder(module.getContext()), k(UnknownLoc::get(module.getContext()), builder), module(module), symbol(symbol),
        storage(storage), optimizer(optimizer) {}

  void run() {
    auto kernel = CpuBuilder::kernel(module, k.b, k.b.getLoc(), symbol, UpdateArgumentCount, true);
    args = kernel.args;
    k.b.setInsertionPoint(kernel.func.getBody().front().getTerminator());
    Value skip = scalar(Hyper, k.index(Skip)), zero = k.constant(k.f32(), 0.0);
    Value go = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OEQ, skip, zero);
    k.when(go, [&] {
      SmallVector<Value> hyper;
      for (int h = 0; h < UpdateHyperCount; ++h)
        hyper.push_back(scalar(Hyper, k.index(h)));
      UpdateMath math(k, optimizer, hyper, width);
      k.loop(kernel.begin, kernel.end, 1, [&](Value block) { emitBlock(math, block); });
    });
  }

private:
  Value scalar(UpdateArgument which, Value at) { return k.load(args[which], at, k.f32(), 0); }
  Value load(UpdateArgument which, Storage type, Value at) {
    return k.load(args[which], at, partition::elementOf(k.b.getContext(), type), width);
  }
  void store(Value v, UpdateArgument which, Storage type, Value at) {
    k.store(v, args[which], at, partition::elementOf(k.b.getContext(), type));
  }

  // Writes a moment, with a scale for the block if its type is narrow.
  void storeMoment(UpdateMath &math, UpdateArgument which, UpdateArgument scales, Storage type, Value block,
                   ArrayRef<Value> at, ArrayRef<Value> v) {
    Value scale;
    if (isBlockScaled(type)) {
      scale = math.scaleOf(type, math.magnitude(v));
      k.store(scale, args[scales], block, k.f32());
    }
    for (int64_t i = 0; i < vectors; ++i)
      store(math.stored(v[i], type, scale), which, type, at[i]);
  }

  void emitBlock(UpdateMath &math, Value block) {
    const bool hasMaster = storage.master != Storage::None, hasV = storage.v != Storage::None;
    const Storage sourceType = hasMaster ? storage.master : storage.weight;
    UpdateScales scales;
    scales.grad = scalar(GradScale, block);
    if (hasMaster ? storage.masterScaled : storage.weightScaled)
      scales.source = scalar(hasMaster ? OldMasterScale : OldWeightScale, block);
    Value weightScale = storage.weightScaled ? scalar(NewWeightScale, block) : Value();
    Value masterScale = storage.masterScaled ? scalar(NewMasterScale, block) : Value();
    if (isBlockScaled(storage.m))
      scales.m = scalar(MScale, block);
    if (hasV && isBlockScaled(storage.v))
      scales.v = scalar(VScale, block);
    math.setScales(scales);
    Value start = k.mul(block, partition::kBlock);
    SmallVector<Value> at, m, v, w;
    for (int64_t i = 0; i < vectors; ++i) {
      at.push_back(k.add(start, i * width));
      UpdateVectors old;
      old.source = load(hasMaster ? Master : Weight, sourceType, at[i]);
      old.grad = load(Grad, storage.grad, at[i]);
      old.m = load(M, storage.m, at[i]);
      if (hasV)
        old.v = load(V, storage.v, at[i]);
      UpdateVectors updated = math.step(old);
      m.push_back(updated.m), v.push_back(updated.v), w.push_back(updated.source);
    }
    storeMoment(math, M, MScale, storage.m, block, at, m);
    if (hasV)
      storeMoment(math, V, VScale, storage.v, block, at, v);
    for (int64_t i = 0; i < vectors; ++i) {
      if (hasMaster)
        store(math.stored(w[i], storage.master, masterScale), Master, storage.master, at[i]);
      store(math.stored(w[i], storage.weight, weightScale), Weight, storage.weight, at[i]);
    }
    k.store(math.magnitude(w), args[BlockAmax], block, k.f32());
  }

  OpBuilder builder;
  CpuBuilder k;
  ModuleOp module;
  StringRef symbol;
  const ClassStorage &storage;
  StringRef optimizer;
  SmallVector<Value> args;
};

} // namespace

LogicalResult emitUpdateKernel(ModuleOp module, StringRef symbol, const ClassStorage &storage, StringRef optimizer) {
  UpdateEmitter(module, symbol, storage, optimizer).run();
  return success();
}

} // namespace msamp::codegen
