// Rows that are too long for registers: a block a row, and each stage reads the row again, from shared memory where it
// has room (copied there while the row before it is at work, if there is room for two) and else from the L2 cache. Sums
// of columns are added up in memory, each by the thread that owns its columns.
#include "codegen/cuda/ClusterEmitter.h"

using namespace mlir;

namespace msamp::codegen::cuda {

using fuse::ReductionKind;

void ClusterEmitter::emitStreamedRows() {
  Type type = d.rows < (int64_t(1) << 31) ? k.i32() : k.i64();
  Value own = k.resize(group, type);
  if (s.has(ReductionKind::Column) || s.byUnit())
    startColumns(own);
  if (!s.held.empty() && !s.ahead) {
    Value buffer = k.dynamicShared(module);
    for (Value v : s.held) {
      values.held[v] = {buffer, s.stagesOf(v, cluster).first};
      buffer = k.address(buffer, s.heldBytes(v), k.b.getI8Type());
    }
  }
  Running running = neutralRunning();
  auto rowAt = [&](Value position, Value slot) {
    if (s.byUnit())
      position = k.add(k.mul(own, d.reducedRows), position);
    Row row = values.row(position, {});
    values.placeRow(row);
    if (s.ahead)
      placeCopies(row, slot);
    return row;
  };
  auto emit = [&](Row row, Running &running) {
    exchanged = 0;
    for (int stage = 0; stage < d.stages; ++stage)
      emitStreamedStage(stage, row, running);
  };
  Value first = s.byUnit() ? k.integer(type, 0) : own;
  if (s.steps() == 1) {
    emit(rowAt(first, {}), running);
  } else {
    // The trip count may differ from block to block, but not within one.
    SmallVector<Value> initial = flatten(running);
    size_t reductions = initial.size();
    initial.push_back(parity);
    Value end = k.integer(type, s.rowLimit()), by = k.integer(type, s.rowStride());
    if (s.ahead) {
      initial.push_back(k.integer(0));
      copyStreamed(rowAt(first, initial.back()));
      k.commitCopies();
    }
    SmallVector<Value> results = k.loop(first, end, by, initial, [&](Value position, ValueRange arguments) {
      Running current = unflatten(arguments.take_front(reductions));
      parity = arguments[reductions];
      Value slot, other;
      if (s.ahead) {
        slot = arguments.back();
        other = arith::SubIOp::create(k.b, k.integer(s.aheadBytes()), slot);
        Value next = k.add(position, s.rowStride()), there = k.less(next, s.rowLimit());
        k.when(there, [&] { copyStreamed(rowAt(next, other)); });
        k.commitCopies();
        k.awaitCopies(1);
      }
      emit(rowAt(position, slot), current);
      SmallVector<Value> yielded = flatten(current);
      Value both = k.integer(exchanges * s.block() / 32);
      yielded.push_back(arith::SubIOp::create(k.b, both, parity));
      if (s.ahead)
        yielded.push_back(other);
      return yielded;
    });
    running = unflatten(ArrayRef<Value>(results).take_front(reductions));
  }
  storeScalars(running);
}

// By the threads that will read what they copy, at the same columns.
void ClusterEmitter::copyStreamed(Row row) {
  overColumns({}, [&](ValueRange) -> SmallVector<Value> {
    values.newColumns(row);
    values.copyRow(row);
    return {};
  });
}

// All columns of the thread: in a loop, and those behind its last whole step once more.
SmallVector<Value> ClusterEmitter::overColumns(SmallVector<Value> carried,
                                               const std::function<SmallVector<Value>(ValueRange)> &body) {
  int64_t step = s.tileWidth(), whole = s.inner / step * step;
  Value start = k.mul(lane, s.chunk);
  if (whole) {
    Value zero = k.integer(0), end = k.integer(whole), by = k.integer(step);
    carried = k.loop(zero, end, by, carried, [&](Value at, ValueRange before) {
      placeColumns(k.add(at, start), false, 0);
      return body(before);
    });
  }
  // Most threads have none there, and warps without any go on.
  for (; whole < s.inner; whole += s.lanes * s.chunk) {
    Value at = k.add(start, whole), there;
    if (whole + s.lanes * s.chunk > s.inner)
      there = k.less(at, s.inner);
    values.columns = {{at}, {Value()}, 0};
    carried = k.when(there, carried, [&] { return body(carried); });
  }
  return carried;
}

void ClusterEmitter::emitStreamedStage(int stage, Row &row, Running &running) {
  values.stage = stage;
  emitRowScalars(stage, row, running);
  SmallVector<Root> roots = rootsOf(stage);
  if (roots.empty())
    return;
  // What is the same along the row is computed before the loop.
  DenseMap<Value, bool> seen;
  std::function<void(Value)> prepare = [&](Value v) {
    if (!seen.insert({v, true}).second || isSplat(values.definition(v)))
      return;
    if (!d.isFull(v)) {
      values.scalar(row, v);
      return;
    }
    if (Operation *op = values.definition(v); op && !d.views.contains(v)) {
      if (Value name = values.naming(op)) // asked for through the view that repeats it along the row
        values.scalar(row, name);
      for (Value operand : op->getOperands())
        prepare(operand);
    }
  };
  for (const Root &root : roots)
    prepare(root.value);

  SmallVector<Operation *> reduced;
  SmallVector<Value> sums;
  for (const Root &root : roots)
    if (root.reduce && root.kind == ReductionKind::Row) {
      reduced.push_back(root.reduce);
      sums.push_back(neutral(k.b, kindOf(root.reduce), 0));
    }
  size_t rowSums = sums.size();
  llvm::append_range(sums, flatten(running));
  sums = overColumns(sums, [&](ValueRange before) {
    values.newColumns(row);
    Running current = unflatten(before.drop_front(rowSums));
    SmallVector<Item> items;
    emitRoots(roots, row, current, items);
    SmallVector<Value> after;
    for (auto [i, item] : llvm::enumerate(items))
      after.push_back(combine(k.b, kindOf(item.reduce), before[i], item.value));
    llvm::append_range(after, flatten(current));
    return after;
  });
  values.newColumns(row);
  running = unflatten(ArrayRef<Value>(sums).drop_front(rowSums));
  SmallVector<Item> items;
  for (auto [i, op] : llvm::enumerate(reduced))
    items.push_back({op, &row, sums[i]});
  reduceTeams(items);
}

// The block's partial sums, or the sums of its unit, before the first row.
void ClusterEmitter::startColumns(Value unit) {
  Value start = k.mul(lane, s.chunk), end = k.integer(s.inner);
  Value by = k.integer(s.lanes * s.chunk);
  Value position = k.mul(unit, d.reducedRows);
  k.loop(start, end, by, {}, [&](Value at, ValueRange) -> SmallVector<Value> {
    values.columns = {};
    values.columns.at.assign(s.chunks, at);
    values.columns.active.assign(s.chunks, Value());
    Row row = values.row(position, {});
    for (auto &[op, kind] : s.reductions)
      if (kind == ReductionKind::Column || kind == ReductionKind::OuterColumn) {
        Root root{op->getOperand(0), op, kind};
        addToColumns(root, row, -1, neutral(k.b, kindOf(op), values.width()));
      }
    return {};
  });
}

// A chunk of -1 sets the first one.
void ClusterEmitter::addToColumns(const Root &root, Row &row, int64_t chunk, Value value) {
  Operation *op = root.reduce;
  bool start = chunk < 0;
  chunk = std::max<int64_t>(chunk, 0);
  Value active = k.both(row.active, values.columns.active[chunk]);
  bool outer = root.kind == ReductionKind::OuterColumn;
  const fuse::View &view = storeOf(op);
  Value at;
  if (outer) {
    at = values.pointer(row, view, values.outputs[outputOf(op)], k.f32(), chunk);
  } else {
    Type type = s.groups * s.inner < (int64_t(1) << 31) ? k.i32() : k.i64();
    Value offset = k.mul(k.resize(group, type), s.inner);
    offset = k.add(offset, values.columns.at[chunk]);
    at = k.address(partialOf(op), offset, k.f32());
  }
  k.when(active, [&] {
    if (!start) {
      Value old = outer ? values.loadAt(at, view, k.f32()) : k.load(at, k.f32(), values.width(), 4 * s.chunk);
      value = combine(k.b, kindOf(op), old, value);
    }
    if (outer)
      values.storeAt(value, at, view, k.f32());
    else
      k.store(value, at, k.f32(), 4 * s.chunk);
  });
}

} // namespace msamp::codegen::cuda
