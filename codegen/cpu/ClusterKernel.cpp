// Emits a cluster as loops over rows with a vectorised inner loop for each stage (the reductions of a row divide it
// into stages). Values are computed where they are needed; those that are dear and needed again in a later stage are
// kept in a row of scratch.
#include "codegen/cpu/ClusterKernel.h"
#include "codegen/kernel/BodyOps.h"

using namespace mlir;

namespace msamp::codegen {
namespace {

using fuse::ClusterDomain;
using fuse::ReductionKind;
using fuse::View;

constexpr int64_t vectorWidth = 16;

int64_t partialSize(ReductionKind kind, const ClusterDomain &domain) {
  switch (kind) {
  case ReductionKind::Column:
    return domain.chunks() * domain.leafSize[domain.inner];
  case ReductionKind::Scalar:
  case ReductionKind::RowScalar:
    return domain.chunks();
  default:
    return 0;
  }
}

class ClusterEmitter {
public:
  ClusterEmitter(ModuleOp module, ClusterOp cluster, ClusterDomain domain, StringRef symbol)
      : builder(module.getContext()), k(UnknownLoc::get(module.getContext()), builder), module(module),
        cluster(cluster), d(std::move(domain)), symbol(symbol), body(cluster.getBody().front()) {
    flat = d.outer.empty() && d.inner >= 0 &&
           llvm::none_of(d.reductions, [](auto &r) { return r.second == ReductionKind::Row; });
  }

  void run() {
    unsigned inputs = cluster.getInputs().size(), outputs = cluster.getResults().size();
    bool workspace = partialValues(cluster, d) > 0;
    auto bind = [&](CpuBuilder::Kernel &kernel) {
      for (unsigned i = 0; i < inputs; ++i)
        pointers[body.getArgument(i)] = kernel.args[i];
      outputPointers.assign(kernel.args.begin() + inputs, kernel.args.begin() + inputs + outputs);
      if (workspace)
        partials = kernel.args.back();
    };
    auto kernel = CpuBuilder::kernel(module, k.b, k.b.getLoc(), symbol, inputs + outputs + workspace, true);
    bind(kernel);
    entry = &kernel.func.getBody().front();
    k.b.setInsertionPoint(entry->getTerminator());
    makeScratch();
    k.loop(kernel.begin, kernel.end, 1, [&](Value c) { emitChunk(c); });
    if (!workspace)
      return;
    std::string finish = (symbol + "_finish").str();
    auto tail = CpuBuilder::kernel(module, k.b, k.b.getLoc(), finish, inputs + outputs + workspace, false);
    bind(tail);
    k.b.setInsertionPoint(tail.func.getBody().front().getTerminator());
    emitFinish();
  }

private:
  //===--- What is needed where ---===//

  Operation *definition(Value v) {
    Operation *op = v.getDefiningOp();
    return op && op->getBlock() == &body ? op : nullptr;
  }

  // Rough instructions to compute a value from what is in memory.
  int cost(Value v, int depth = 0) {
    Operation *op = definition(v);
    if (!op || isSplat(op) || d.views.contains(v) || !d.isFull(v))
      return 1;
    int own = isa<math::MathDialect>(op->getDialect()) && !isa<math::AbsFOp>(op) ? 20 : isa<arith::DivFOp>(op) ? 8 : 1;
    if (depth > 6)
      return own + 8;
    for (Value operand : op->getOperands())
      own += cost(operand, depth + 1);
    return own;
  }

  // Gives a row of scratch to dear values that a later stage needs again.
  void makeScratch() {
    if (d.stages == 1 || d.inner < 0)
      return;
    for (Operation &op : body.without_terminator())
      for (Value v : op.getResults()) {
        if (!d.isFull(v) || d.views.contains(v) || isSplat(&op) || cost(v) <= 6)
          continue;
        bool later = llvm::any_of(v.getUsers(), [&](Operation *user) {
          if (isa<YieldOp>(user))
            return false;
          int needed = user->getNumResults() ? d.stage.lookup(user->getResult(0)) : 0;
          if (auto it = d.reductions.find(user); it != d.reductions.end() && it->second == ReductionKind::Row)
            --needed;
          return needed > d.stage.lookup(v);
        });
        if (later)
          scratch[v] = allocate(elementOf(v), d.leafSize[d.inner]);
      }
  }

  Value allocate(Type element, int64_t count) {
    OpBuilder::InsertionGuard guard(k.b);
    k.b.setInsertionPointToStart(entry);
    Value n = k.index(count);
    return LLVM::AllocaOp::create(k.b, k.ptr(), k.memoryType(element), n, 64);
  }

  //===--- Rows ---===//

  void emitChunk(Value c) {
    chunk = c;
    int64_t units = d.rows / d.reducedRows, chunks = d.chunks();
    startPartials();
    if (flat) {
      int64_t size = d.leafSize[d.inner];
      int64_t segment = (size + chunks - 1) / chunks;
      segment = (segment + vectorWidth - 1) / vectorWidth * vectorWidth;
      Value low = k.mul(c, segment), high = k.add(low, segment), limit = k.index(size);
      low = arith::MinUIOp::create(k.b, low, limit);
      high = arith::MinUIOp::create(k.b, high, limit);
      innerFrom = low, innerTo = high;
      emitRow(k.index(0));
    } else {
      innerFrom = k.index(0);
      innerTo = k.index(d.inner < 0 ? 1 : d.leafSize[d.inner]);
      Value scaled = k.mul(c, units), next = k.add(c, 1), scaledNext = k.mul(next, units);
      Value from = k.divide(scaled, chunks), to = k.divide(scaledNext, chunks);
      from = k.mul(from, d.reducedRows), to = k.mul(to, d.reducedRows);
      k.loop(from, to, 1, [&](Value row) { emitRow(row); });
    }
    endPartials();
  }

  void emitRow(Value row) {
    rowValues.clear();
    viewBases.clear();
    leafIndex.clear();
    Value rest = row;
    for (size_t i = d.outer.size(); i-- > 0;) {
      int leaf = d.outer[i];
      if (i == 0) {
        leafIndex[leaf] = rest;
        break;
      }
      leafIndex[leaf] = k.remainder(rest, d.leafSize[leaf]);
      rest = k.divide(rest, d.leafSize[leaf]);
    }
    startOuterColumns(row);
    for (stage = 0; stage < d.stages; ++stage)
      emitStage();
  }

  struct Root { // something a stage's inner loop does
    enum { Reduce, Store, Keep } kind;
    Value value;
    Operation *reduce = nullptr;
    unsigned output = 0;
    const View *view = nullptr;
  };

  void emitStage() {
    SmallVector<Root> roots;
    for (Operation &op : body.without_terminator()) {
      auto it = d.reductions.find(&op);
      if (it == d.reductions.end())
        continue;
      Value in = op.getOperand(0);
      if (d.stage.lookup(in) != stage)
        continue;
      if (it->second == ReductionKind::RowScalar) {
        Value v = rowValue(in);
        Value old = k.load(accumulators[&op].second, k.index(0), k.f32(), 0);
        k.store(combine(&op, old, v), accumulators[&op].second, k.index(0), k.f32());
      } else if (isIdentity(&op)) {
        continue;
      } else {
        roots.push_back({Root::Reduce, in, &op});
      }
    }
    for (auto [i, out] : llvm::enumerate(body.getTerminator()->getOperands())) {
      Operation *def = definition(out);
      if (auto it = d.reductions.find(def); def && it != d.reductions.end() && it->second != ReductionKind::Row)
        continue;
      for (auto &store : d.stores[out]) {
        if (d.stage.lookup(store.value) != stage)
          continue;
        if (d.isFull(store.value)) {
          roots.push_back({Root::Store, store.value, nullptr, static_cast<unsigned>(i), &store.view});
          continue;
        }
        Value v = rowValue(store.value);
        k.store(v, outputPointers[i], rowAddress(store.view), elementOf(store.value));
      }
    }
    for (Operation &op : body.without_terminator())
      for (Value v : op.getResults())
        if (scratch.contains(v) && d.stage.lookup(v) == stage)
          roots.push_back({Root::Keep, v});
    if (roots.empty())
      return;

    llvm::SmallPtrSet<void *, 16> visited;
    for (Root &root : roots)
      prepare(root.value, visited);
    SmallVector<Value> storeBases(roots.size());
    for (auto [i, root] : llvm::enumerate(roots)) {
      if (root.kind == Root::Store)
        storeBases[i] = rowAddress(*root.view);
      if (root.kind == Root::Reduce && d.reductions[root.reduce] == ReductionKind::Row)
        startAccumulator(root.reduce);
    }
    auto body = [&](Value j, int64_t w) {
      inner = j, width = w;
      loopValues.clear();
      for (auto [i, root] : llvm::enumerate(roots)) {
        Value v = loopValue(root.value);
        if (root.kind == Root::Keep)
          k.store(v, scratch[root.value], j, elementOf(root.value));
        if (root.kind == Root::Store)
          storeStrided(v, outputPointers[root.output], storeBases[i], root.view->stride(d.inner),
                       elementOf(root.value));
        if (root.kind == Root::Reduce)
          accumulate(root.reduce, v);
      }
    };
    innerLoops(innerFrom, innerTo, body);
    for (Root &root : roots)
      if (root.kind == Root::Reduce && d.reductions[root.reduce] == ReductionKind::Row)
        rowValues[root.reduce->getResult(0)] = finishAccumulator(root.reduce);
  }

  // Vectors first, then what is left one by one.
  void innerLoops(Value from, Value to, const std::function<void(Value, int64_t)> &body) {
    int64_t size = d.inner < 0 ? 1 : d.leafSize[d.inner];
    if (flat || size >= vectorWidth) {
      Value count = arith::SubIOp::create(k.b, to, from);
      Value whole = k.mul(k.divide(count, vectorWidth), vectorWidth);
      Value split = k.add(from, whole);
      k.loop(from, split, vectorWidth, [&](Value j) { body(j, vectorWidth); });
      if (size % vectorWidth == 0)
        return;
      from = split;
    }
    k.loop(from, to, 1, [&](Value j) { body(j, 0); });
  }

  //===--- Values ---===//

  // A reduction over dimensions of size 1.
  bool isIdentity(Operation *op) {
    return d.reductions[op] == ReductionKind::Row &&
           d.leaves[op->getOperand(0)].size() == d.leaves[op->getResult(0)].size();
  }

  Value rowAddress(const View &view) {
    Value at = k.index(view.offset);
    for (auto &[leaf, stride] : view.strides)
      if (leaf != d.inner)
        if (auto it = leafIndex.find(leaf); it != leafIndex.end()) {
          Value step = k.mul(it->second, stride);
          at = k.add(at, step);
        }
    return at;
  }

  // Emits, outside of the inner loop, what the loop's values need once a row.
  void prepare(Value v, llvm::SmallPtrSetImpl<void *> &visited) {
    if (!visited.insert(v.getAsOpaquePointer()).second)
      return;
    Operation *op = definition(v);
    if (isSplat(op))
      return;
    if (!d.isFull(v)) {
      rowValue(v);
      return;
    }
    if (scratch.contains(v) && d.stage.lookup(v) < stage)
      return;
    if (auto it = d.views.find(v); it != d.views.end()) {
      if (!viewBases.contains(v))
        viewBases[v] = rowAddress(it->second);
      return;
    }
    if (!op)
      return;
    for (Value operand : op->getOperands())
      prepare(operand, visited);
  }

  // A value that is the same along the inner loop, as a scalar.
  Value rowValue(Value v) {
    auto it = rowValues.find(v);
    if (it != rowValues.end())
      return it->second;
    Operation *op = definition(v);
    Value result;
    if (isSplat(op)) {
      result = emitSplat(k.b, op, 0);
    } else if (auto view = d.views.find(v); view != d.views.end()) {
      result = k.load(pointers[d.viewBase[v]], rowAddress(view->second), elementOf(v), 0);
    } else {
      SmallVector<Value> operands;
      if (!isa<IotaOp>(op))
        for (Value operand : op->getOperands())
          operands.push_back(rowValue(operand));
      result = compute(op, operands, 0);
    }
    rowValues[v] = result;
    return result;
  }

  // A value at the current position of the inner loop, as a vector of `width` (a scalar for 0).
  Value loopValue(Value v) {
    auto it = loopValues.find(v);
    if (it != loopValues.end())
      return it->second;
    Operation *op = definition(v);
    Value result;
    if (isSplat(op)) {
      result = emitSplat(k.b, op, width);
    } else if (!d.isFull(v)) {
      result = k.splat(rowValues[v], width);
    } else if (scratch.contains(v) && d.stage.lookup(v) < stage) {
      result = k.load(scratch[v], inner, elementOf(v), width);
    } else if (auto view = d.views.find(v); view != d.views.end()) {
      result = loadStrided(pointers[d.viewBase[v]], viewBases[v], view->second.stride(d.inner), elementOf(v));
    } else {
      SmallVector<Value> operands;
      if (!isa<IotaOp>(op))
        for (Value operand : op->getOperands())
          operands.push_back(loopValue(operand));
      result = compute(op, operands, width);
    }
    loopValues[v] = result;
    return result;
  }

  Value loadStrided(Value base, Value rowBase, int64_t stride, Type element) {
    if (stride == 1 || !width) {
      Value offset = k.mul(inner, stride), at = k.add(rowBase, offset);
      return k.load(base, at, element, width);
    }
    Type loaded = element.isBF16() ? k.memoryType(element) : element;
    Value vector;
    for (int64_t i = 0; i < width; ++i) {
      Value position = k.add(inner, i), offset = k.mul(position, stride), at = k.add(rowBase, offset);
      Value one = k.load(base, at, loaded, 0);
      if (!i)
        vector = k.splat(one, width);
      else
        vector = vector::InsertOp::create(k.b, one, vector, ArrayRef<int64_t>{i});
    }
    if (loaded != element)
      vector = arith::BitcastOp::create(k.b, widen(element, width), vector);
    return vector;
  }

  void storeStrided(Value v, Value base, Value rowBase, int64_t stride, Type element) {
    if (stride == 1 || !width) {
      Value offset = k.mul(inner, stride), at = k.add(rowBase, offset);
      k.store(v, base, at, element);
      return;
    }
    if (element.isBF16()) {
      element = k.memoryType(element);
      v = arith::BitcastOp::create(k.b, widen(element, width), v);
    }
    for (int64_t i = 0; i < width; ++i) {
      Value position = k.add(inner, i), offset = k.mul(position, stride), at = k.add(rowBase, offset);
      Value one = vector::ExtractOp::create(k.b, v, ArrayRef<int64_t>{i});
      k.store(one, base, at, element);
    }
  }

  Value compute(Operation *op, ArrayRef<Value> operands, int64_t w) {
    if (auto it = d.reductions.find(op); it != d.reductions.end())
      return operands[0]; // over sizes of 1
    if (auto iota = dyn_cast<IotaOp>(op))
      return computeIota(iota, w);
    return emitBodyOp(k.b, op, operands, w);
  }

  Value computeIota(IotaOp op, int64_t w) {
    Value base = k.index(0), steps;
    for (auto &[leaf, multiplier] : d.iotas[op]) {
      Value at = leaf == d.inner ? inner : leafIndex.lookup(leaf);
      if (leaf == d.inner && w) {
        SmallVector<int64_t> offsets;
        for (int64_t i = 0; i < w; ++i)
          offsets.push_back(i * multiplier);
        auto type = VectorType::get({w}, k.i64());
        steps = arith::ConstantOp::create(k.b, DenseElementsAttr::get(type, ArrayRef<int64_t>(offsets)));
      }
      Value scaled = k.mul(at, multiplier);
      base = k.add(base, scaled);
    }
    Value result = k.splat(base, w);
    if (steps)
      result = k.add(result, steps);
    Type element = elementOf(op.getResult());
    if (element != k.i64())
      result = arith::TruncIOp::create(k.b, widen(element, w), result);
    return result;
  }

  //===--- Reductions ---===//

  Value combine(Operation *op, Value x, Value y) { return codegen::combine(k.b, cast<ReduceOp>(op).getKind(), x, y); }
  Value identity(Operation *op, int64_t w) { return neutral(k.b, cast<ReduceOp>(op).getKind(), w); }

  Value horizontal(Operation *op, Value vector) {
    ReduceKind kind = cast<ReduceOp>(op).getKind();
    auto how = kind == ReduceKind::Sum   ? vector::CombiningKind::ADD
               : kind == ReduceKind::Max ? vector::CombiningKind::MAXIMUMF
                                         : vector::CombiningKind::MINIMUMF;
    if (kind != ReduceKind::Sum)
      return vector::ReductionOp::create(k.b, how, vector);
    // Pairwise, in an order of our own.
    for (int64_t w = vectorWidth / 2; w >= 1; w /= 2) {
      SmallVector<int64_t> low, high;
      for (int64_t i = 0; i < w; ++i)
        low.push_back(i), high.push_back(i + w);
      Value a = vector::ShuffleOp::create(k.b, vector, vector, low);
      Value c = vector::ShuffleOp::create(k.b, vector, vector, high);
      vector = arith::AddFOp::create(k.b, a, c);
    }
    return vector::ExtractOp::create(k.b, vector, ArrayRef<int64_t>{0});
  }

  void startAccumulator(Operation *op) {
    auto &slots = accumulators[op];
    if (!slots.first)
      slots = {allocate(k.f32(), vectorWidth), allocate(k.f32(), 1)};
    k.store(identity(op, vectorWidth), slots.first, k.index(0), k.f32());
    k.store(identity(op, 0), slots.second, k.index(0), k.f32());
  }

  Value finishAccumulator(Operation *op) {
    auto &slots = accumulators[op];
    Value vector = k.load(slots.first, k.index(0), k.f32(), vectorWidth);
    Value scalar = k.load(slots.second, k.index(0), k.f32(), 0);
    Value lanes = horizontal(op, vector);
    return combine(op, lanes, scalar);
  }

  void accumulate(Operation *op, Value v) {
    Value base, at;
    switch (d.reductions[op]) {
    case ReductionKind::Row:
    case ReductionKind::Scalar:
      base = width ? accumulators[op].first : accumulators[op].second;
      at = k.index(0);
      break;
    case ReductionKind::Column:
      base = partialOf(op);
      at = k.add(k.mul(chunk, d.leafSize[d.inner]), inner);
      break;
    case ReductionKind::OuterColumn:
      base = outputOf(op);
      at = k.add(outerColumnBases[op], k.mul(inner, d.stores[op->getResult(0)][0].view.stride(d.inner)));
      break;
    case ReductionKind::RowScalar:
      return;
    }
    Value old = k.load(base, at, k.f32(), width);
    k.store(combine(op, old, v), base, at, k.f32());
  }

  Value outputOf(Operation *op) {
    for (auto [i, out] : llvm::enumerate(body.getTerminator()->getOperands()))
      if (out == op->getResult(0))
        return outputPointers[i];
    return {};
  }

  // The first partial value of a reduction in the workspace.
  Value partialOf(Operation *op) {
    int64_t offset = 0;
    for (Operation &other : body.without_terminator()) {
      auto it = d.reductions.find(&other);
      if (it == d.reductions.end())
        continue;
      if (&other == op)
        break;
      offset += partialSize(it->second, d);
    }
    return k.address(partials, k.index(offset), k.f32());
  }

  template <typename F>
  void forReductions(F f) {
    for (Operation &op : body.without_terminator())
      if (auto it = d.reductions.find(&op); it != d.reductions.end())
        f(&op, it->second);
  }

  void startPartials() {
    forReductions([&](Operation *op, ReductionKind kind) {
      if (kind == ReductionKind::Scalar || kind == ReductionKind::RowScalar)
        startAccumulator(op);
      if (kind != ReductionKind::Column)
        return;
      Value base = partialOf(op), row = k.mul(chunk, d.leafSize[d.inner]);
      innerLoops(k.index(0), k.index(d.leafSize[d.inner]),
                 [&](Value j, int64_t w) { k.store(identity(op, w), base, k.add(row, j), k.f32()); });
    });
  }

  void startOuterColumns(Value row) {
    forReductions([&](Operation *op, ReductionKind kind) {
      if (kind != ReductionKind::OuterColumn)
        return;
      const View &view = d.stores[op->getResult(0)][0].view;
      Value base = rowAddress(view);
      outerColumnBases[op] = base;
      Value within = k.remainder(row, d.reducedRows), zero = k.index(0);
      Value first = arith::CmpIOp::create(k.b, arith::CmpIPredicate::eq, within, zero);
      k.when(first, [&] {
        innerLoops(k.index(0), k.index(d.leafSize[d.inner]),
                   [&](Value j, int64_t w) { k.store(identity(op, w), outputOf(op), k.add(base, j), k.f32()); });
      });
    });
  }

  void endPartials() {
    forReductions([&](Operation *op, ReductionKind kind) {
      if (kind != ReductionKind::Scalar && kind != ReductionKind::RowScalar)
        return;
      Value value = kind == ReductionKind::Scalar ? finishAccumulator(op)
                                                  : k.load(accumulators[op].second, k.index(0), k.f32(), 0);
      k.store(value, partialOf(op), chunk, k.f32());
    });
  }

  void emitFinish() {
    int64_t chunks = d.chunks();
    forReductions([&](Operation *op, ReductionKind kind) {
      if (!partialSize(kind, d))
        return;
      Value base = partialOf(op), output = outputOf(op);
      auto total = [&](Value j, int64_t stride, int64_t w) {
        Value sum = k.load(base, j, k.f32(), w);
        for (int64_t c = 1; c < chunks; ++c) {
          Value next = k.load(base, k.add(j, c * stride), k.f32(), w);
          sum = combine(op, sum, next);
        }
        Type element = elementOf(op->getResult(0));
        if (element != k.f32())
          sum = arith::TruncFOp::create(k.b, widen(element, w), sum);
        k.store(sum, output, j, element);
      };
      if (kind != ReductionKind::Column)
        return total(k.index(0), 1, 0);
      int64_t size = d.leafSize[d.inner];
      innerLoops(k.index(0), k.index(size), [&](Value j, int64_t w) { total(j, size, w); });
    });
  }

  OpBuilder builder;
  CpuBuilder k;
  ModuleOp module;
  ClusterOp cluster;
  ClusterDomain d;
  StringRef symbol;
  Block &body;
  Block *entry = nullptr;
  bool flat;
  DenseMap<Value, Value> pointers, scratch, rowValues, loopValues, viewBases;
  SmallVector<Value> outputPointers;
  DenseMap<Operation *, std::pair<Value, Value>> accumulators; // a vector and a scalar
  DenseMap<Operation *, Value> outerColumnBases;
  DenseMap<int, Value> leafIndex;
  Value partials, chunk, inner, innerFrom, innerTo;
  int64_t width = 0;
  int stage = 0;
};

} // namespace

int64_t partialValues(ClusterOp cluster, const ClusterDomain &domain) {
  int64_t values = 0;
  for (auto &[op, kind] : domain.reductions)
    values += partialSize(kind, domain);
  return values;
}

LogicalResult emitClusterKernel(ModuleOp module, ClusterOp cluster, StringRef symbol) {
  std::string why;
  auto domain = ClusterDomain::analyze(cluster, &why);
  if (failed(domain))
    return cluster.emitOpError() << "no loop nest computes it: " << why;
  ClusterEmitter(module, cluster, std::move(*domain), symbol).run();
  return success();
}

} // namespace msamp::codegen
