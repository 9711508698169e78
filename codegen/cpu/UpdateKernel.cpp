// The update of one block of 128 parameters at a time: everything is read once, computed in FP32 and written back in
// its storage type; no wide copy of a state exists in memory.
#include "codegen/cpu/UpdateKernel.h"

#include "codegen/kernel/ScaleOf.h"

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
        storage(storage), optimizer(optimizer), vec(VectorType::get({width}, k.f32())) {}

  void run() {
    auto kernel = KernelBuilder::kernel(module, k.b, k.b.getLoc(), symbol, UpdateArgumentCount, true);
    args = kernel.args;
    k.b.setInsertionPoint(kernel.func.getBody().front().getTerminator());
    Value skip = hyper(Skip), zero = k.constant(k.f32(), 0.0);
    Value go = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OEQ, skip, zero);
    k.when(go, [&] {
      for (int h = 0; h < UpdateHyperCount; ++h)
        values[h] = hyper(static_cast<UpdateHyper>(h));
      Value one = k.constant(k.f32(), 1.0);
      keep1 = arith::SubFOp::create(k.b, one, values[Beta1]);
      keep2 = arith::SubFOp::create(k.b, one, values[Beta2]);
      k.loop(kernel.begin, kernel.end, 1, [&](Value block) { emitBlock(block); });
    });
  }

private:
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

  Value hyper(UpdateHyper which) { return k.load(args[Hyper], k.index(which), k.f32(), 0); }
  Value perBlock(UpdateArgument which, Value block) { return k.load(args[which], block, k.f32(), 0); }
  Value inverse(Value scale) {
    Value one = k.constant(k.f32(), 1.0);
    return arith::DivFOp::create(k.b, one, scale);
  }
  Value mul(Value x, Value y) { return arith::MulFOp::create(k.b, x, y); }
  Value add(Value x, Value y) { return arith::AddFOp::create(k.b, x, y); }
  Value wide(Value scalar) { return k.splat(scalar, width); }

  // Vector i of a block, in FP32, times `factor` where there is one.
  Value read(UpdateArgument which, Storage type, Value at, Value factor) {
    Value v = k.load(args[which], at, element(type), width);
    if (type != Storage::F32)
      v = arith::ExtFOp::create(k.b, vec, v);
    return factor ? mul(v, factor) : v;
  }
  void write(UpdateArgument which, Storage type, Value at, Value v, Value factor) {
    if (factor)
      v = mul(v, factor);
    if (type != Storage::F32)
      v = arith::TruncFOp::create(k.b, VectorType::get({width}, element(type)), v);
    k.store(v, args[which], at, element(type));
  }

  Value magnitude(Value most, Value v) {
    Value a = math::AbsFOp::create(k.b, v);
    return most ? arith::MaximumFOp::create(k.b, most, a).getResult() : a;
  }
  Value largest(Value v) { return vector::ReductionOp::create(k.b, vector::CombiningKind::MAXIMUMF, v); }

  // Writes a moment: with a scale for the block if its type is narrow.
  void writeMoment(UpdateArgument which, UpdateArgument scaleArg, Storage type, Value block, ArrayRef<Value> at,
                   ArrayRef<Value> v) {
    Value factor;
    if (blockScaled(type)) {
      Value most;
      for (Value x : v)
        most = magnitude(most, x);
      Value amax = largest(most);
      Value scale = emitScaleOf(k.b, amax, element(type), 0);
      k.store(scale, args[scaleArg], block, k.f32());
      factor = wide(scale);
    }
    for (int64_t i = 0; i < vectors; ++i)
      write(which, type, at[i], v[i], factor);
  }

  void emitBlock(Value block) {
    bool hasMaster = storage.master != Storage::None, hasV = storage.v != Storage::None;
    Value gradScale = perBlock(GradScale, block);
    Value gradInverse = inverse(gradScale);
    Value gradFactor = wide(mul(gradInverse, values[GradFactor]));
    Value sourceFactor, weightFactor, masterFactor, mFactor, vFactor;
    if (hasMaster ? storage.masterScaled : storage.weightScaled)
      sourceFactor = wide(inverse(perBlock(hasMaster ? OldMasterScale : OldWeightScale, block)));
    if (storage.weightScaled)
      weightFactor = wide(perBlock(NewWeightScale, block));
    if (storage.masterScaled)
      masterFactor = wide(perBlock(NewMasterScale, block));
    if (blockScaled(storage.m))
      mFactor = wide(inverse(perBlock(MScale, block)));
    if (hasV && blockScaled(storage.v))
      vFactor = wide(inverse(perBlock(VScale, block)));
    Value b1 = wide(values[Beta1]), b2 = wide(values[Beta2]), k1 = wide(keep1), k2 = wide(keep2);
    Value lr = wide(values[LearningRate]), decay = wide(values[WeightDecay]), epsilon = wide(values[Epsilon]);
    Value biasM = wide(values[BiasM]), biasV = wide(values[BiasV]);
    Value start = k.mul(block, partition::kBlock);
    SmallVector<Value> at, m, v, w;
    for (int64_t i = 0; i < vectors; ++i) {
      at.push_back(k.add(start, i * width));
      Value p = hasMaster ? read(Master, storage.master, at[i], sourceFactor)
                          : read(Weight, storage.weight, at[i], sourceFactor);
      Value g = read(Grad, storage.grad, at[i], gradFactor);
      if (optimizer != "adamw")
        g = add(g, mul(decay, p)); // L2 regularisation
      Value oldM = read(M, storage.m, at[i], mFactor);
      Value step;
      if (optimizer == "sgd") {
        Value newM = add(mul(b1, oldM), g);
        m.push_back(newM);
        step = newM;
      } else {
        Value newM = add(mul(b1, oldM), mul(k1, g));
        Value oldV = read(V, storage.v, at[i], vFactor);
        Value square = mul(g, g);
        Value newV = add(mul(b2, oldV), mul(k2, square));
        m.push_back(newM), v.push_back(newV);
        Value mHat = mul(newM, biasM), vHat = mul(newV, biasV);
        Value root = math::SqrtOp::create(k.b, vHat);
        Value denominator = add(root, epsilon);
        step = arith::DivFOp::create(k.b, mHat, denominator);
      }
      if (optimizer == "adamw")
        step = add(step, mul(decay, p));
      Value change = mul(lr, step);
      w.push_back(arith::SubFOp::create(k.b, p, change));
    }
    writeMoment(M, MScale, storage.m, block, at, m);
    if (hasV)
      writeMoment(V, VScale, storage.v, block, at, v);
    Value most;
    for (int64_t i = 0; i < vectors; ++i) {
      if (hasMaster)
        write(Master, storage.master, at[i], w[i], masterFactor);
      write(Weight, storage.weight, at[i], w[i], weightFactor);
      most = magnitude(most, w[i]);
    }
    k.store(largest(most), args[BlockAmax], block, k.f32());
  }

  OpBuilder builder;
  KernelBuilder k;
  ModuleOp module;
  StringRef symbol;
  const ClassStorage &storage;
  StringRef optimizer;
  VectorType vec;
  SmallVector<Value> args;
  Value values[UpdateHyperCount], keep1, keep2;
};

} // namespace

LogicalResult emitUpdateKernel(ModuleOp module, StringRef symbol, const ClassStorage &storage, StringRef optimizer) {
  UpdateEmitter(module, symbol, storage, optimizer).run();
  return success();
}

} // namespace msamp::codegen
