// Results of reductions over rows: what the threads of a block hold becomes one partial result a block, which a second
// entry sums up, always in the same order.
#include "codegen/cuda/ClusterEmitter.h"

using namespace mlir;

namespace msamp::codegen::cuda {

using fuse::ReductionKind;

namespace {
constexpr int64_t finishColumns32 = 32, finishRows = 16, finishBlock = finishColumns32 * finishRows;
} // namespace

Value ClusterEmitter::exchange(Value value, int64_t bit) {
  auto type = dyn_cast<VectorType>(value.getType());
  if (!type)
    return k.exchange(value, bit);
  SmallVector<Value> elements;
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    Value element = k.extract(value, i);
    elements.push_back(k.exchange(element, bit));
  }
  return vector::FromElementsOp::create(k.b, type, elements);
}

// Rounded to the type that is stored.
void ClusterEmitter::storeResult(Operation *op, Value value, Value base, Value index) {
  Type element = elementOf(op->getResult(0));
  int64_t width = 0;
  if (auto vector = dyn_cast<VectorType>(value.getType()))
    width = vector.getDimSize(0);
  if (element != k.f32())
    value = arith::TruncFOp::create(k.b, widen(element, width), value);
  Value at = index ? k.address(base, index, element) : base;
  k.store(value, at, element, std::max<int64_t>(width, 1) * CudaBuilder::bytesOf(element));
}

// Sums of columns, or those of a unit: of the block's teams first, in shared memory.
void ClusterEmitter::storeColumns(const Running &running, ReductionKind which, Value unitAt) {
  Row unit;
  if (unitAt)
    unit = values.row(k.mul(unitAt, d.reducedRows), {});
  for (auto &[op, kind] : s.reductions) {
    if (kind != which)
      continue;
    bool byColumn = kind == ReductionKind::Column; // one value a column, in a row of partial results
    SmallVector<Value> sums = running.find(op)->second;
    // Teams within a warp first, by exchange.
    int64_t teams = s.teams;
    Value holder = team, holds = inTeam;
    if (s.lanes < 32 && 32 % s.lanes == 0 && s.teams > 1 && !inTeam) {
      for (int64_t bit = s.lanes; bit < 32; bit *= 2)
        for (Value &sum : sums)
          sum = combine(k.b, kindOf(op), sum, exchange(sum, bit));
      teams = s.block() / 32;
      holder = k.divide(thread, 32);
      holds = k.less(k.remainder(thread, 32), s.lanes);
    }
    Value base = s.isPartial(kind) ? partialOf(op) : values.outputs[outputOf(op)];
    Type offsets = s.groups * s.inner < (int64_t(1) << 31) ? k.i32() : k.i64();
    Value rowStart;
    if (byColumn)
      rowStart = k.mul(k.resize(group, offsets), s.inner);
    if (teams == 1) {
      for (int64_t c = 0; c < s.chunks; ++c) {
        Value active = k.both(holds, values.columns.active[c]);
        if (!byColumn) {
          Value at = values.pointer(unit, storeOf(op), base, k.f32(), c);
          k.when(active, [&] { values.storeAt(sums[c], at, storeOf(op), k.f32()); });
          continue;
        }
        Value index = k.add(rowStart, values.columns.at[c]);
        k.when(active, [&] {
          if (!s.isPartial(kind))
            return storeResult(op, sums[c], base, index);
          k.store(sums[c], k.address(base, index, k.f32()), k.f32(), 4 * s.chunk);
        });
      }
      continue;
    }
    Value first;
    if (!byColumn)
      first = values.rowPointer(unit, storeOf(op), base, k.f32());
    int64_t width = s.tileWidth();
    k.barrier(); // the sums before these have been read
    Value mine = k.mul(holder, width);
    mine = k.add(mine, k.mul(lane, s.chunk));
    k.when(holds, [&] {
      Value at = k.address(columnsBuffer, mine, k.f32());
      for (int64_t c = 0; c < s.chunks; ++c)
        k.store(sums[c], k.address(at, c * values.columns.step, k.f32()), k.f32(), 4 * s.chunk);
    });
    k.barrier();
    for (int64_t from = 0; from < width; from += s.block()) {
      Value column = k.add(thread, from), inside;
      if (from + s.block() > width)
        inside = k.less(column, width);
      Value global = column;
      if (s.tiles > 1) {
        Type type = s.tiles * width < (int64_t(1) << 31) ? k.i32() : k.i64();
        Value start = k.mul(k.resize(tile, type), width);
        global = k.add(start, k.resize(column, type));
      }
      if (s.tiles * width != s.inner)
        inside = k.both(inside, k.less(global, s.inner));
      k.when(inside, [&] {
        Value at = k.address(columnsBuffer, column, k.f32()), total;
        for (int64_t t = 0; t < teams; ++t) {
          Value other = k.load(k.address(at, t * width, k.f32()), k.f32(), 0);
          total = total ? combine(k.b, kindOf(op), total, other) : other;
        }
        if (byColumn && !s.isPartial(kind))
          return storeResult(op, total, base, k.add(rowStart, global));
        Value to;
        if (byColumn)
          to = k.address(base, k.add(rowStart, global), k.f32());
        else
          to = k.address(first, k.mul(global, storeOf(op).stride(d.inner)), k.f32());
        k.store(total, to, k.f32());
      });
    }
  }
}

// Scalars: over lanes, then over warps.
void ClusterEmitter::storeScalars(const Running &running) {
  SmallVector<std::pair<Operation *, Value>> totals;
  for (auto &[op, kind] : s.reductions) {
    if (kind != ReductionKind::Scalar && kind != ReductionKind::RowScalar)
      continue;
    Value v = running.find(op)->second[0];
    if (kind == ReductionKind::RowScalar) { // all threads of a team have it
      Value mine = k.equal(lane, 0);
      mine = k.both(mine, inTeam);
      if (s.tiles > 1)
        mine = k.both(mine, k.equal(tile, 0));
      v = k.select(mine, v, neutral(k.b, kindOf(op), 0));
    }
    totals.push_back({op, k.reduceLanes(kindOf(op), v, 32)});
  }
  if (totals.empty())
    return;
  int64_t warps = s.block() / 32;
  auto finish = [&](Value condition, const std::function<Value(size_t)> &total) {
    k.when(condition, [&] {
      for (auto [i, entry] : llvm::enumerate(totals)) {
        Value v = total(i);
        Value at = k.address(partialOf(entry.first), block, k.f32());
        k.store(v, at, k.f32());
      }
    });
  };
  if (warps == 1)
    return finish(k.equal(thread, 0), [&](size_t i) { return totals[i].second; });
  Value buffer = k.sharedArray(module, symbol + "_scalars", totals.size() * warps);
  Value within = k.remainder(thread, 32), first = k.equal(within, 0), warp = k.divide(thread, 32);
  k.when(first, [&] {
    Value at = k.address(buffer, warp, k.f32());
    for (auto [i, entry] : llvm::enumerate(totals))
      k.store(entry.second, k.address(at, i * warps, k.f32()), k.f32());
  });
  k.barrier();
  finish(k.equal(thread, 0), [&](size_t i) {
    Value total;
    for (int64_t w = 0; w < warps; ++w) {
      Value other = k.load(k.address(buffer, i * warps + w, k.f32()), k.f32(), 0);
      total = total ? combine(k.b, kindOf(totals[i].first), total, other) : other;
    }
    return total;
  });
}

//===--- The second entry ---===//

// 32 columns a block (a line of memory a row), or one block for a scalar.
void ClusterEmitter::emitFinish(SmallVectorImpl<KernelEntry> &entries) {
  std::string name = symbol + "_finish";
  enter(name, finishBlock, 0);
  int64_t blocks = 0;
  for (const Reduction &reduction : s.reductions) {
    ReductionKind kind = reduction.second;
    if (!s.isPartial(kind))
      continue;
    int64_t count = kind == ReductionKind::Column ? (s.inner + finishColumns32 - 1) / finishColumns32 : 1;
    // Blocks below the range wrap around to large numbers.
    Value within = k.add(block, -blocks), mine = k.less(within, count);
    k.when(mine, [&] {
      if (kind == ReductionKind::Column)
        finishColumns(reduction, within);
      else
        finishScalar(reduction);
    });
    blocks += count;
  }
  entries.push_back({name, blocks, 1, finishBlock, 0});
}

void ClusterEmitter::finishColumns(const Reduction &reduction, Value within) {
  Operation *op = reduction.first;
  ReduceKind kind = kindOf(op);
  Value line = k.remainder(thread, finishColumns32), first = k.divide(thread, finishColumns32);
  Value column = k.add(k.mul(within, finishColumns32), line);
  Value inside;
  if (s.inner % finishColumns32)
    inside = k.less(column, s.inner);
  Value clamped = inside ? k.select(inside, column, k.integer(0)) : column;
  Type type = s.groups * s.inner < (int64_t(1) << 31) ? k.i32() : k.i64();
  Value base = k.address(partialOf(op), clamped, k.f32());
  auto partial = [&](Value row) {
    Value at = k.mul(k.resize(row, type), s.inner);
    return k.load(k.address(base, at, k.f32()), k.f32(), 0);
  };
  // Rows `first`, first + 16, ..: four at a time, then those that are left.
  Value total = neutral(k.b, kind, 0);
  int64_t step = 4 * finishRows, whole = s.groups / step;
  if (whole) {
    Value zero = k.integer(0), end = k.integer(whole * step), by = k.integer(step);
    total = k.loop(zero, end, by, total, [&](Value start, ValueRange sums) -> SmallVector<Value> {
      Value row = k.add(start, first);
      SmallVector<Value> parts;
      for (int64_t u = 0; u < 4; ++u)
        parts.push_back(partial(k.add(row, u * finishRows)));
      Value low = combine(k.b, kind, parts[0], parts[1]), high = combine(k.b, kind, parts[2], parts[3]);
      Value sum = combine(k.b, kind, low, high);
      return {combine(k.b, kind, sums[0], sum)};
    })[0];
  }
  for (int64_t from = whole * step; from < s.groups; from += finishRows) {
    Value row = k.add(first, from), there;
    if (from + finishRows > s.groups) {
      there = k.less(row, s.groups);
      row = k.select(there, row, k.integer(0));
    }
    Value part = partial(row);
    if (there)
      part = k.select(there, part, neutral(k.b, kind, 0));
    total = combine(k.b, kind, total, part);
  }
  std::string name = symbol + "_finish_" + std::to_string(s.partialOffset(op));
  Value buffer = k.sharedArray(module, name, finishBlock);
  k.store(total, k.address(buffer, thread, k.f32()), k.f32());
  k.barrier();
  Value writes = k.both(k.less(thread, finishColumns32), inside);
  k.when(writes, [&] {
    Value at = k.address(buffer, thread, k.f32()), sum;
    for (int64_t r = 0; r < finishRows; ++r) {
      Value other = k.load(k.address(at, r * finishColumns32, k.f32()), k.f32(), 0);
      sum = sum ? combine(k.b, kind, sum, other) : other;
    }
    storeResult(op, sum, values.outputs[outputOf(op)], column);
  });
}

void ClusterEmitter::finishScalar(const Reduction &reduction) {
  Operation *op = reduction.first;
  ReduceKind kind = kindOf(op);
  Value base = partialOf(op), total = neutral(k.b, kind, 0);
  // Four values a load, as many loads in flight as there are.
  constexpr int64_t wide = 4, ahead = 8, row = wide * finishBlock;
  Value own = k.mul(thread, wide);
  auto partial = [&](Value at) { return k.load(k.address(base, at, k.f32()), k.f32(), wide, 16); };
  int64_t count = s.grid(), step = ahead * row, whole = count / step;
  if (whole) {
    Value zero = k.integer(0), end = k.integer(whole * step), by = k.integer(step);
    total = k.loop(zero, end, by, total, [&](Value start, ValueRange sums) -> SmallVector<Value> {
      Value at = k.add(start, own);
      SmallVector<Value> parts;
      for (int64_t u = 0; u < ahead; ++u)
        parts.push_back(partial(k.add(at, u * row)));
      Value sum = parts[0];
      for (Value part : ArrayRef(parts).drop_front())
        sum = combine(k.b, kind, sum, part);
      return {combine(k.b, kind, sums[0], k.reduceVector(kind, sum))};
    })[0];
  }
  for (int64_t from = whole * step; from < count; from += row) {
    Value at = k.add(own, from), clamped = at;
    bool ends = from + row > count;
    if (ends) {
      Value there = k.less(at, count), zero = k.integer(0);
      clamped = k.select(there, at, zero);
    }
    Value part = partial(clamped);
    if (ends) {
      SmallVector<Value> elements;
      for (int64_t i = 0; i < wide; ++i) {
        Value there = k.less(k.add(at, i), count), element = k.extract(part, i);
        element = k.select(there, element, neutral(k.b, kind, 0));
        elements.push_back(element);
      }
      part = vector::FromElementsOp::create(k.b, VectorType::get({wide}, k.f32()), elements);
    }
    total = combine(k.b, kind, total, k.reduceVector(kind, part));
  }
  total = k.reduceLanes(kind, total, 32);
  std::string name = symbol + "_finish_" + std::to_string(s.partialOffset(op));
  Value buffer = k.sharedArray(module, name, finishBlock / 32);
  Value lane = k.remainder(thread, 32), leads = k.equal(lane, 0), warp = k.divide(thread, 32);
  k.when(leads, [&] { k.store(total, k.address(buffer, warp, k.f32()), k.f32()); });
  k.barrier();
  Value writes = k.equal(thread, 0);
  k.when(writes, [&] {
    Value sum;
    for (int64_t w = 0; w < finishBlock / 32; ++w) {
      Value other = k.load(k.address(buffer, w, k.f32()), k.f32(), 0);
      sum = sum ? combine(k.b, kind, sum, other) : other;
    }
    storeResult(op, sum, values.outputs[outputOf(op)], {});
  });
}

} // namespace msamp::codegen::cuda
