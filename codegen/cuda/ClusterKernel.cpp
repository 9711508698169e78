// Emits a cluster at the level of one thread: rows that are held in registers, with everything unrolled.
#include "codegen/cuda/ClusterKernel.h"
#include "codegen/cuda/ClusterEmitter.h"

using namespace mlir;

namespace msamp::codegen::cuda {

using fuse::ReductionKind;
using fuse::View;

ClusterEmitter::ClusterEmitter(gpu::GPUModuleOp module, ClusterOp cluster, const Schedule &s, StringRef symbol)
    : builder(module.getContext()), k(UnknownLoc::get(module.getContext()), builder), module(module), cluster(cluster),
      s(s), d(s.domain), symbol(symbol), body(cluster.getBody().front()), values(k, cluster, s) {}

ReduceKind ClusterEmitter::kindOf(Operation *reduce) {
  return cast<ReduceOp>(reduce).getKind();
}

//===--- What is to be done ---===//

SmallVector<ClusterEmitter::Root> ClusterEmitter::rootsOf(int stage) {
  SmallVector<Root> roots;
  for (auto &[op, kind] : s.reductions)
    if (kind != ReductionKind::RowScalar && d.stage.lookup(op->getOperand(0)) == stage && !values.isPick(op))
      roots.push_back({op->getOperand(0), op, kind});
  for (auto [i, out] : llvm::enumerate(body.getTerminator()->getOperands())) {
    auto it = d.reductions.find(values.definition(out));
    if (it != d.reductions.end() && it->second != ReductionKind::Row)
      continue;
    for (auto &store : d.stores.find(out)->second)
      if (d.stage.lookup(store.value) == stage && d.isFull(store.value) &&
          !((s.turned || s.stagedRows) && s.isTurned(store.view)))
        roots.push_back({store.value, nullptr, ReductionKind::Row, static_cast<unsigned>(i), &store.view});
  }
  return roots;
}

unsigned ClusterEmitter::outputOf(Operation *reduce) {
  for (auto [i, out] : llvm::enumerate(body.getTerminator()->getOperands()))
    if (out == reduce->getResult(0))
      return i;
  llvm_unreachable("reductions over rows are stored");
}

const View &ClusterEmitter::storeOf(Operation *reduce) {
  return d.stores.find(reduce->getResult(0))->second[0].view;
}

Value ClusterEmitter::partialOf(Operation *reduce) {
  return k.address(values.workspace, s.partialOffset(reduce), k.f32());
}

//===--- Setting up ---===//

// An entry point whose arguments are the operands, the results and, where there are partial sums, the workspace.
void ClusterEmitter::enter(StringRef name, int64_t threads, int64_t blocksPerMultiprocessor) {
  unsigned inputs = cluster.getInputs().size(), outputs = cluster.getResults().size();
  bool workspace = s.partialValues() > 0;
  unsigned count = inputs + outputs + workspace;
  auto func = k.kernel(module, name, count, threads, blocksPerMultiprocessor);
  for (unsigned i = 0; i < count; ++i) {
    func.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(), k.b.getI64IntegerAttr(16));
    if (i < inputs)
      func.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(), k.b.getUnitAttr());
  }
  auto arguments = func.getBody().getArguments();
  for (unsigned i = 0; i < inputs; ++i)
    values.pointers[body.getArgument(i)] = arguments[i];
  values.outputs.assign(arguments.begin() + inputs, arguments.begin() + inputs + outputs);
  if (workspace)
    values.workspace = arguments.back();
  thread = k.threadId();
  block = k.blockId();
}

void ClusterEmitter::begin() {
  enter(symbol, s.block(), s.blocksPerMultiprocessor);
  Value place = k.divide(block, s.blocksAlongRows);
  tile = s.tiles > 1 ? k.remainder(place, s.tiles) : k.integer(0);
  group = k.divide(place, s.tiles);
  if (s.blocksAlongRows > 1) {
    Value along = k.remainder(block, s.blocksAlongRows);
    group = k.add(k.mul(group, s.blocksAlongRows), along);
  }
  placeThread();
  for (auto &[op, kind] : s.reductions)
    exchanges += kind == ReductionKind::Row && !values.isPick(op) ? s.rowsAtOnce : 0;
  if (exchanges && s.lanes > 32)
    exchangeBuffer = k.sharedArray(module, symbol + "_exchange", 2 * exchanges * s.block() / 32);
  if (s.teams > 1 && !s.streamed && (s.byUnit() || s.has(ReductionKind::Column)))
    columnsBuffer = k.sharedArray(module, symbol + "_columns", s.teams * s.tileWidth());
  parity = k.integer(0);
  values.prologue = parity.getDefiningOp();
}

// Which team and which lane of it the thread is.
void ClusterEmitter::placeThread() {
  team = s.teams > 1 ? k.divide(thread, s.lanes) : k.integer(0);
  lane = s.teams > 1 ? k.remainder(thread, s.lanes) : thread;
  if (s.block() != s.lanes * s.teams) {
    inTeam = k.less(thread, s.lanes * s.teams);
    if (s.teams == 1)
      lane = arith::MinUIOp::create(k.b, lane, k.integer(s.lanes - 1));
    else
      team = arith::MinUIOp::create(k.b, team, k.integer(s.teams - 1));
  }
}

// Chunks from `start` on, which is at most `last`. `mayEnd`: chunks that are not sure to lie within the row get a
// condition.
void ClusterEmitter::placeColumns(Value start, bool mayEnd, int64_t last) {
  Columns &columns = values.columns;
  columns.at.clear();
  columns.active.clear();
  columns.step = s.lanes * s.chunk;
  for (int64_t c = 0; c < s.chunks; ++c) {
    Value at = k.add(start, c * columns.step), active;
    // The last column of the last thread that comes here.
    if (mayEnd && last + c * columns.step + s.chunk > s.inner) {
      active = k.less(at, s.inner);
      Value zero = k.integer(at.getType(), 0);
      at = k.select(active, at, zero);
    }
    columns.at.push_back(at);
    columns.active.push_back(active);
  }
}

ClusterEmitter::Running ClusterEmitter::neutralRunning() {
  Running running;
  for (auto &[op, kind] : s.reductions) {
    if (kind == ReductionKind::Scalar || kind == ReductionKind::RowScalar)
      running[op].push_back(neutral(k.b, kindOf(op), 0));
    else if (kind != ReductionKind::Row && !s.streamed)
      for (int64_t c = 0; c < s.chunks; ++c)
        running[op].push_back(neutral(k.b, kindOf(op), values.width()));
  }
  return running;
}

SmallVector<Value> ClusterEmitter::flatten(const Running &running) {
  SmallVector<Value> list;
  for (auto &[op, kind] : s.reductions)
    if (auto it = running.find(op); it != running.end())
      llvm::append_range(list, it->second);
  return list;
}

ClusterEmitter::Running ClusterEmitter::unflatten(ValueRange list) {
  Running running;
  size_t i = 0;
  for (auto &[op, kind] : s.reductions) {
    size_t count = kind == ReductionKind::Row                                          ? 0
                   : kind == ReductionKind::Scalar || kind == ReductionKind::RowScalar ? 1
                   : s.streamed                                                        ? 0
                                                                                       : s.chunks;
    for (; count > 0; --count)
      running[op].push_back(list[i++]);
  }
  return running;
}

//===--- Rows in registers ---===//

// `position` counts the rows of the group.
Row ClusterEmitter::rowAt(Value position) {
  bool exact = s.rowLimit() % (s.stagedRows ? s.groups * s.stagedRows : s.rowStride() * s.rowsAtOnce) == 0;
  Value active = inTeam;
  if (!exact && !s.evenSteps()) {
    active = k.both(active, k.less(position, s.rowLimit()));
    Value last = k.integer(position.getType(), s.rowLimit() - 1);
    position = arith::MinUIOp::create(k.b, position, last);
  }
  if (s.byUnit() && !s.walksUnits()) {
    Value unit = k.resize(group, position.getType());
    position = k.add(k.mul(unit, d.reducedRows), position);
  }
  return values.row(position, active);
}

// Whose rows the group has in a step.
Value ClusterEmitter::unitOf(Value step) {
  Value before = s.walksUnits() ? k.mul(k.divide(step, s.unitSteps()), s.groups) : k.integer(step.getType(), 0);
  return k.add(before, k.resize(group, step.getType()));
}

// Where the team's rows of a step begin.
Value ClusterEmitter::positionOf(Value step) {
  Type type = step.getType();
  Value own = k.resize(team, type);
  if (s.stagedRows) {
    int64_t perTile = s.shareSteps();
    Value tileOf = k.mul(k.divide(step, perTile), s.groups);
    tileOf = k.add(tileOf, k.resize(group, type));
    Value within = k.mul(k.remainder(step, perTile), s.teams);
    within = k.mul(k.add(within, own), s.rowsAtOnce);
    return k.add(k.mul(tileOf, s.stagedRows), within);
  }
  if (s.walksUnits()) {
    Value within = k.mul(k.remainder(step, s.unitSteps()), s.teams * s.rowsAtOnce);
    return k.add(k.mul(unitOf(step), d.reducedRows), k.add(within, own));
  }
  Value first = own;
  if (!s.byUnit()) {
    Value before = k.mul(k.resize(group, type), s.teams);
    first = k.add(before, own);
    if (s.turned)
      first = k.mul(first, s.rowsAtOnce);
  }
  return k.add(k.mul(step, s.rowStride() * s.rowsAtOnce), first);
}

void ClusterEmitter::placeCopies(MutableArrayRef<Row> rows, Value slot) {
  Type byte = k.b.getI8Type();
  Value at = k.address(k.dynamicShared(module), s.stagedBytes(cluster), byte);
  at = k.address(at, slot, byte);
  if (s.teams > 1)
    at = k.address(at, k.mul(team, s.rowsAtOnce * s.heldRowBytes()), byte);
  for (Row &row : rows)
    for (Value v : s.held) {
      row.copies[v] = at;
      at = k.address(at, s.heldBytes(v), byte);
    }
}

// By each team for itself: a thread waits for its own copies alone.
void ClusterEmitter::copyColumns() {
  Value at = k.address(k.dynamicShared(module), s.stagedBytes(cluster) + 2 * s.aheadBytes(), k.b.getI8Type());
  Row none = values.row(k.integer(0), {});
  for (Value v : s.heldColumns) {
    values.held[v] = {at, -1};
    values.copy(none, v, at);
    at = k.address(at, s.heldBytes(v), k.b.getI8Type());
  }
}

void ClusterEmitter::emitRows() {
  Type type = d.rows < (int64_t(1) << 31) ? k.i32() : k.i64();
  Value start = k.mul(lane, s.chunk), tileStart;
  if (s.tiles > 1) {
    Type columnType = s.tiles * s.tileWidth() < (int64_t(1) << 31) ? k.i32() : k.i64();
    tileStart = k.mul(k.resize(tile, columnType), s.tileWidth());
    start = k.add(tileStart, start);
  }
  placeColumns(start, s.tiles * s.tileWidth() != s.inner, (s.tiles - 1) * s.tileWidth() + (s.lanes - 1) * s.chunk);
  if (s.keepColumns)
    values.loadColumns();
  Running running = neutralRunning();
  if (s.stagedRows) {
    staged = turnedTargets();
    Value buffer = k.dynamicShared(module);
    for (auto [i, target] : llvm::enumerate(staged))
      target.buffer = k.address(buffer, i * s.tileWidth() * s.stagedPitch(), target.element);
  }
  Value zero = k.integer(type, 0);
  // All rows of a step.
  auto rowsFrom = [&](Value position) {
    SmallVector<Row> rows;
    for (int64_t u = 0; u < s.rowsAtOnce; ++u)
      rows.push_back(rowAt(k.add(position, u * (s.neighbouringRows() ? 1 : s.rowStride()))));
    return rows;
  };
  auto emit = [&](MutableArrayRef<Row> rows, Running &running) {
    exchanged = 0;
    for (int stage = 0; stage < d.stages; ++stage) {
      if (s.ahead) // registers are for sums of columns
        for (Row &row : rows)
          values.newColumns(row);
      emitStage(stage, rows, running);
    }
  };
  int64_t steps = s.steps();
  if (steps == 1 && !s.stagedRows) {
    SmallVector<Row> rows = rowsFrom(positionOf(zero));
    for (Row &row : rows)
      values.loadRow(row);
    emit(rows, running);
    if (s.turned) {
      emitTurned(rows);
      thread = k.computedHere(thread); // where it is in its team was not kept in registers
      placeThread();
    }
  } else {
    SmallVector<Value> initial = flatten(running);
    size_t reductions = initial.size();
    if (s.prefetch) {
      SmallVector<Row> rows = rowsFrom(positionOf(zero));
      for (Row &row : rows) {
        values.loadRow(row);
        llvm::append_range(initial, values.loaded(row));
      }
    }
    if (s.ahead) {
      SmallVector<Row> rows = rowsFrom(positionOf(zero));
      placeCopies(rows, k.integer(0));
      for (Row &row : rows)
        values.copyRow(row);
      copyColumns();
      k.commitCopies();
      initial.push_back(k.integer(0));
    }
    bool halves = static_cast<bool>(exchangeBuffer);
    if (halves)
      initial.push_back(parity);
    Value count = k.integer(type, steps), one = k.integer(type, 1);
    if (s.evenSteps() && s.shares() % s.groups) {
      Value rest = arith::SubIOp::create(k.b, k.integer(type, s.shares() + s.groups - 1), k.resize(group, type));
      count = k.divide(rest, s.groups);
      count = k.mul(count, s.shareSteps());
    }
    SmallVector<Value> results = k.loop(zero, count, one, initial, [&](Value step, ValueRange arguments) {
      Value position = positionOf(step);
      Running current = unflatten(arguments.take_front(reductions));
      ValueRange rest = arguments.drop_front(reductions);
      if (halves)
        parity = arguments.back();
      SmallVector<Row> rows = rowsFrom(position);
      SmallVector<Value> next;
      Value otherSlot;
      if (s.ahead) {
        Value slot = arguments[arguments.size() - (halves ? 2 : 1)];
        otherSlot = arith::SubIOp::create(k.b, k.integer(s.aheadBytes()), slot);
        Value following = k.add(step, 1);
        Value more = arith::CmpIOp::create(k.b, arith::CmpIPredicate::ult, following, count);
        k.when(more, [&] {
          SmallVector<Row> nextRows = rowsFrom(positionOf(following));
          placeCopies(nextRows, otherSlot);
          for (Row &row : nextRows)
            values.copyRow(row);
        });
        k.commitCopies();
        k.awaitCopies(1);
        placeCopies(rows, slot);
      }
      if (s.prefetch) {
        // The step after the last one loads rows that are there, for nothing.
        Value last = k.integer(type, s.rowLimit() - 1), following = positionOf(k.add(step, 1));
        for (int64_t u = 0; u < s.rowsAtOnce; ++u) {
          Value at = k.add(following, u * (s.neighbouringRows() ? 1 : s.rowStride()));
          at = arith::MinUIOp::create(k.b, at, last);
          Row row = rowAt(at);
          values.loadRow(row);
          SmallVector<Value> loaded = values.loaded(row);
          llvm::append_range(next, loaded);
          values.setLoaded(rows[u], rest.take_front(loaded.size()));
          rest = rest.drop_front(loaded.size());
        }
      } else {
        for (Row &row : rows)
          values.loadRow(row);
      }
      emit(rows, current);
      if (s.stagedRows) {
        stageRows(rows, step);
        storeStaged(step);
      }
      if (s.walksUnits())
        endUnit(step, current);
      SmallVector<Value> yielded = flatten(current);
      llvm::append_range(yielded, next);
      if (s.ahead)
        yielded.push_back(otherSlot);
      if (halves) {
        Value both = k.integer(exchanges * s.block() / 32);
        yielded.push_back(arith::SubIOp::create(k.b, both, parity));
      }
      return yielded;
    });
    running = unflatten(ArrayRef<Value>(results).take_front(reductions));
  }
  storeColumns(running, ReductionKind::Column, {});
  if (s.byUnit() && !s.walksUnits())
    storeColumns(running, ReductionKind::OuterColumn, unitOf(zero));
  storeScalars(running);
}

// After the last rows of a unit its sums are complete, and those of the next one start.
void ClusterEmitter::endUnit(Value step, Running &running) {
  Value last = k.equal(k.remainder(step, s.unitSteps()), s.unitSteps() - 1);
  k.when(last, [&] { storeColumns(running, ReductionKind::OuterColumn, unitOf(step)); });
  for (auto &[op, kind] : s.reductions)
    if (kind == ReductionKind::OuterColumn)
      for (Value &sum : running[op])
        sum = k.select(last, neutral(k.b, kindOf(op), values.width()), sum);
}

// The rows of a team, or the tiles of a single row that a block has, one after the other.
void ClusterEmitter::emitWalk() {
  bool overTiles = d.outer.empty();
  int64_t width = s.tileWidth(), by = overTiles ? s.tiles * width : s.rowStride(), to = overTiles ? s.inner : d.rows;
  // Beyond the end by a step at most.
  Type type = to + by < (int64_t(1) << 31) ? k.i32() : k.i64();
  Value tileStart = k.mul(k.resize(tile, type), width), offset = k.mul(k.resize(lane, type), s.chunk);
  int64_t tiles = overTiles ? (s.inner + width - 1) / width : s.tiles;
  auto place = [&](Value start) {
    placeColumns(k.add(start, offset), tiles * width != s.inner, tiles * width - s.chunk);
  };
  if (!overTiles) {
    place(tileStart);
    values.loadColumns();
  }
  Running running = neutralRunning();
  Value from = overTiles ? tileStart : positionOf(k.integer(type, 0));
  Value end = k.integer(type, to), step = k.integer(type, by);
  SmallVector<Value> results = k.loop(from, end, step, flatten(running), [&](Value at, ValueRange arguments) {
    Running current = unflatten(arguments);
    if (overTiles)
      place(at);
    SmallVector<Row> rows = {values.row(overTiles ? k.integer(0) : at, inTeam)};
    if (!overTiles)
      values.loadRow(rows[0]);
    emitStage(0, rows, current);
    return flatten(current);
  });
  storeScalars(unflatten(results));
}

void ClusterEmitter::emitStage(int stage, MutableArrayRef<Row> rows, Running &running) {
  SmallVector<Root> roots = rootsOf(stage);
  SmallVector<Item> items;
  for (Row &row : rows) {
    emitRowScalars(stage, row, running);
    emitRoots(roots, row, running, items);
  }
  reduceTeams(items);
}

// What happens once a row: stores of values that do not vary along it, and their sums.
void ClusterEmitter::emitRowScalars(int stage, Row &row, Running &running) {
  for (auto &[op, kind] : s.reductions)
    if (d.stage.lookup(op->getOperand(0)) == stage && values.isPick(op))
      row.scalars[op->getResult(0)] = values.picked(row, op);
  for (auto &[op, kind] : s.reductions) {
    if (kind != ReductionKind::RowScalar || d.stage.lookup(op->getOperand(0)) != stage)
      continue;
    Value v = values.scalar(row, op->getOperand(0));
    if (row.active)
      v = k.select(row.active, v, neutral(k.b, kindOf(op), 0));
    running[op][0] = combine(k.b, kindOf(op), running[op][0], v);
  }
  Value mine;
  for (auto [i, out] : llvm::enumerate(body.getTerminator()->getOperands())) {
    auto it = d.reductions.find(values.definition(out));
    if (it != d.reductions.end() && it->second != ReductionKind::Row)
      continue;
    for (auto &store : d.stores.find(out)->second) {
      if (d.stage.lookup(store.value) != stage || d.isFull(store.value))
        continue;
      if (!mine) {
        mine = k.equal(lane, 0);
        if (s.tiles > 1)
          mine = k.both(mine, k.equal(tile, 0));
        mine = k.both(mine, row.active);
      }
      Value v = values.scalar(row, store.value);
      Type element = elementOf(store.value);
      Value at = values.rowPointer(row, store.view, values.outputs[i], element);
      k.when(mine, [&] { k.store(v, at, element); });
    }
  }
}

// Chunk by chunk, so that what the roots share of one is not kept for the others.
void ClusterEmitter::emitRoots(ArrayRef<Root> roots, Row &row, Running &running, SmallVectorImpl<Item> &items) {
  SmallVector<Value> totals(roots.size());
  const int64_t chunks = values.columns.at.size(), together = s.ahead ? 1 : chunks;
  for (int64_t from = 0; from < chunks; from += together) {
    if (s.ahead && !s.streamed) // what the next chunk reads is not read early
      NVVM::SyncWarpOp::create(k.b, k.integer(-1));
    for (auto [root, total] : llvm::zip_equal(roots, totals))
      for (int64_t c = from; c < from + together; ++c)
        emitRoot(root, row, c, running, total);
  }
  for (auto [root, total] : llvm::zip_equal(roots, totals)) {
    if (root.reduce && root.kind == ReductionKind::Scalar) {
      Value &sum = running[root.reduce][0];
      sum = combine(k.b, kindOf(root.reduce), sum, total);
    } else if (root.reduce && root.kind == ReductionKind::Row) {
      items.push_back({root.reduce, &row, total});
    }
  }
}

void ClusterEmitter::emitRoot(const Root &root, Row &row, int64_t c, Running &running, Value &total) {
  Value v = values.vector(row, root.value, c);
  Value active = k.both(row.active, values.columns.active[c]);
  if (!root.reduce) {
    Type element = elementOf(root.value);
    Value at = values.pointer(row, *root.view, values.outputs[root.output], element, c);
    k.when(active, [&] { values.storeAt(v, at, *root.view, element); });
    return;
  }
  ReduceKind kind = kindOf(root.reduce);
  if (active)
    v = k.select(active, v, neutral(k.b, kind, values.width()));
  if (root.kind == ReductionKind::Column || root.kind == ReductionKind::OuterColumn) {
    if (s.streamed) {
      addToColumns(root, row, c, v);
      return;
    }
    Value &sum = running[root.reduce][c];
    sum = combine(k.b, kind, sum, v);
    return;
  }
  v = k.reduceVector(kind, v);
  total = total ? combine(k.b, kind, total, v) : v;
}

// Reductions of rows over the threads of their teams; all threads get the results, in the same order of operations.
void ClusterEmitter::reduceTeams(MutableArrayRef<Item> items) {
  if (items.empty())
    return;
  int64_t warps = s.lanes / 32;
  for (Item &item : items)
    item.value = k.reduceLanes(kindOf(item.reduce), item.value, std::min<int64_t>(s.lanes, 32));
  if (s.lanes > 32) {
    Value within = k.remainder(thread, 32), first = k.equal(within, 0), warp = k.divide(thread, 32);
    int64_t all = s.block() / 32;
    k.when(first, [&] {
      Value at = k.address(exchangeBuffer, k.add(parity, warp), k.f32());
      for (auto [i, item] : llvm::enumerate(items))
        k.store(item.value, k.address(at, (exchanged + i) * all, k.f32()), k.f32());
    });
    if (s.teams > 1)
      k.barrier(team, s.lanes);
    else
      k.barrier();
    Value at = k.address(exchangeBuffer, k.add(parity, k.mul(team, warps)), k.f32());
    for (auto [i, item] : llvm::enumerate(items)) {
      Value total;
      if (s.ahead) { // a value a lane, where registers are for sums of columns
        int64_t lanes = llvm::PowerOf2Ceil(warps);
        Value mine = k.remainder(thread, lanes), there;
        if (lanes != warps) {
          there = k.less(mine, warps);
          mine = k.select(there, mine, k.integer(0));
        }
        Value own = k.address(at, mine, k.f32());
        Value part = k.load(k.address(own, (exchanged + i) * all, k.f32()), k.f32(), 0);
        if (there)
          part = k.select(there, part, neutral(k.b, kindOf(item.reduce), 0));
        item.value = k.reduceLanes(kindOf(item.reduce), part, lanes);
        continue;
      }
      for (int64_t w = 0; w < warps; ++w) {
        Value other = k.load(k.address(at, (exchanged + i) * all + w, k.f32()), k.f32(), 0);
        total = total ? combine(k.b, kindOf(item.reduce), total, other) : other;
      }
      item.value = total;
    }
    exchanged += items.size();
  }
  for (Item &item : items)
    item.row->scalars[item.reduce->getResult(0)] = item.value;
}

void ClusterEmitter::run(SmallVectorImpl<KernelEntry> &entries) {
  begin();
  if (s.streamed)
    emitStreamedRows();
  else if (s.walks)
    emitWalk();
  else
    emitRows();
  entries.push_back({symbol, s.grid(), 1, s.block(), s.sharedBytes(cluster)});
  if (s.partialValues())
    emitFinish(entries);
}

LogicalResult emitClusterKernel(gpu::GPUModuleOp module, ClusterOp cluster, StringRef symbol, const Target &target,
                                SmallVectorImpl<KernelEntry> &entries) {
  std::string why;
  auto schedule = scheduleCluster(cluster, target, &why);
  if (failed(schedule))
    return cluster.emitOpError() << "no loop nest computes it: " << why;
  ClusterEmitter(module, cluster, *schedule, symbol).run(entries);
  return success();
}

int64_t clusterWorkspaceBytes(ClusterOp cluster, const Target &target) {
  auto schedule = scheduleCluster(cluster, target);
  return succeeded(schedule) ? schedule->partialValues() * static_cast<int64_t>(sizeof(float)) : 0;
}

} // namespace msamp::codegen::cuda
