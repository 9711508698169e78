// Results that are stored with rows innermost: a block's tile goes through shared memory, four rows of a column at a
// time, and leaves it in runs of 16 bytes along the rows.
#include "codegen/cuda/ClusterEmitter.h"

using namespace mlir;

namespace msamp::codegen::cuda {

SmallVector<Value> turnRows(CudaBuilder &k, ArrayRef<Value> rows, Type element, int64_t columns) {
  SmallVector<Value> turned;
  auto word = VectorType::get({static_cast<int64_t>(rows.size())}, element);
  if (columns % 4) {
    for (int64_t j = 0; j < std::max<int64_t>(columns, 1); ++j) {
      SmallVector<Value> elements;
      for (Value row : rows)
        elements.push_back(columns ? k.extract(row, j) : row);
      turned.push_back(vector::FromElementsOp::create(k.b, word, elements));
    }
    return turned;
  }
  auto shuffle = [&](Value x, Value y, std::initializer_list<int64_t> order) -> Value {
    return vector::ShuffleOp::create(k.b, x, y, ArrayRef<int64_t>(order));
  };
  auto slice = [&](Value x, int64_t offset, int64_t size) -> Value {
    SmallVector<int64_t> offsets = {offset}, sizes = {size}, strides = {1};
    return vector::ExtractStridedSliceOp::create(k.b, x, offsets, sizes, strides);
  };
  for (int64_t from = 0; from < columns; from += 4) {
    SmallVector<Value> parts;
    for (Value row : rows)
      parts.push_back(columns == 4 ? row : slice(row, from, 4));
    Value low01 = shuffle(parts[0], parts[1], {0, 4, 1, 5}), high01 = shuffle(parts[0], parts[1], {2, 6, 3, 7});
    if (rows.size() == 2) {
      for (Value pair : {low01, high01})
        for (int64_t j = 0; j < 2; ++j)
          turned.push_back(slice(pair, 2 * j, 2));
      continue;
    }
    Value low23 = shuffle(parts[2], parts[3], {0, 4, 1, 5}), high23 = shuffle(parts[2], parts[3], {2, 6, 3, 7});
    turned.push_back(shuffle(low01, low23, {0, 1, 4, 5}));
    turned.push_back(shuffle(low01, low23, {2, 3, 6, 7}));
    turned.push_back(shuffle(high01, high23, {0, 1, 4, 5}));
    turned.push_back(shuffle(high01, high23, {2, 3, 6, 7}));
  }
  return turned;
}

SmallVector<ClusterEmitter::Turned> ClusterEmitter::turnedTargets() {
  SmallVector<Turned> targets;
  for (auto [i, out] : llvm::enumerate(body.getTerminator()->getOperands())) {
    auto it = d.reductions.find(values.definition(out));
    if (it != d.reductions.end() && it->second != fuse::ReductionKind::Row)
      continue;
    for (auto &store : d.stores.find(out)->second)
      if (d.isFull(store.value) && s.isTurned(store.view))
        targets.push_back({store.value, &store.view, values.outputs[i], {}, k.memoryType(elementOf(store.value))});
  }
  return targets;
}

Value ClusterEmitter::inMemory(Row &row, const Turned &target, int64_t chunk) {
  Value v = values.vector(row, target.value, chunk);
  if (elementOf(target.value).isInteger(1))
    return arith::ExtUIOp::create(k.b, widen(target.element, values.width()), v);
  if (elementOf(target.value) != target.element)
    return arith::BitcastOp::create(k.b, widen(target.element, values.width()), v);
  return v;
}

// Line (c * chunk + j) * lanes + lane holds the column (c * lanes + lane) * chunk + j of the tile: a warp's lanes write
// lines that follow each other.
Value ClusterEmitter::columnOf(Value line) {
  Value lineLane = k.remainder(line, s.lanes), jc = k.divide(line, s.lanes);
  Value column = k.mul(lineLane, s.chunk);
  if (s.chunks == 1)
    return k.add(column, jc);
  column = k.add(column, k.remainder(jc, s.chunk));
  return k.add(column, k.mul(k.divide(jc, s.chunk), s.lanes * s.chunk));
}

void ClusterEmitter::emitTurned(MutableArrayRef<Row> rows) {
  SmallVector<Turned> targets = turnedTargets();
  // A column of the tile takes its rows and 16 bytes, and columns stand in the order in which a warp's lanes write
  // them: with 8 lanes a row each bank is used once then, in writing and in reading; with 16, half of them twice.
  int64_t tall = s.teams * s.rowsAtOnce, wide = s.tileWidth();
  Value rowStart = k.mul(k.resize(group, rows[0].index.getType()), tall);
  Value ownRow = k.mul(team, s.rowsAtOnce);
  int64_t floats = 0;
  for (Turned &target : targets) {
    int64_t bytes = CudaBuilder::bytesOf(target.element);
    floats = std::max(floats, wide * (tall * bytes + 16) / 4);
  }
  bool together = floats * 4 * static_cast<int64_t>(targets.size()) <= 40 << 10;
  for (auto [i, target] : llvm::enumerate(targets))
    if (together || i == 0)
      target.buffer = k.sharedArray(module, symbol + "_turned" + std::to_string(i), floats);
    else
      target.buffer = targets[0].buffer;
  auto pitch = [&](const Turned &target) { return tall + 16 / CudaBuilder::bytesOf(target.element); };
  auto write = [&](Turned &target) {
    for (int64_t c = 0; c < s.chunks; ++c) {
      SmallVector<Value> parts;
      for (Row &row : rows)
        parts.push_back(inMemory(row, target, c));
      SmallVector<Value> turned = turnRows(k, parts, target.element, values.width());
      Value at = k.add(k.mul(lane, pitch(target)), ownRow);
      at = k.address(target.buffer, at, target.element);
      for (auto [j, column] : llvm::enumerate(turned)) {
        int64_t line = (c * s.chunk + static_cast<int64_t>(j)) * s.lanes;
        k.store(column, k.address(at, line * pitch(target), target.element), target.element,
                4 * CudaBuilder::bytesOf(target.element));
      }
    }
  };
  auto read = [&](Turned &target) {
    // Until here the registers are for the rows.
    Value thread = k.computedHere(this->thread);
    int64_t bytes = CudaBuilder::bytesOf(target.element), run = 16 / bytes;
    // Runs that the memory's alignment allows, and that are there as a whole or not at all.
    int64_t columnStride = target.view->stride(d.inner);
    while (columnStride % run || target.view->offset % run || d.rows % run)
      run /= 2;
    int64_t runs = tall / run, all = runs * wide;
    for (int64_t from = 0; from < all; from += s.block()) {
      Value number = k.add(thread, from), inside;
      if (from + s.block() > all)
        inside = k.less(number, all);
      Value line = k.divide(number, runs), along = k.mul(k.remainder(number, runs), run);
      Value column = columnOf(line);
      if (s.tiles > 1) {
        Value start = k.mul(tile, wide);
        column = k.add(start, column);
      }
      if (s.tiles * wide != s.inner)
        inside = k.both(inside, k.less(column, s.inner));
      Value row = k.add(rowStart, along);
      if (d.rows % tall)
        inside = k.both(inside, k.less(row, d.rows));
      Value from16 = k.mul(line, pitch(target));
      from16 = k.add(from16, along);
      from16 = k.address(target.buffer, from16, target.element);
      k.when(inside, [&] {
        Value v = k.load(from16, target.element, run > 1 ? run : 0, run * bytes);
        Value to = k.mul(k.resize(column, k.i64()), columnStride);
        to = k.add(to, k.resize(row, k.i64()));
        to = k.add(to, target.view->offset);
        k.store(v, k.address(target.output, to, target.element), target.element, run * bytes);
      });
    }
  };
  if (together) {
    for (Turned &target : targets)
      write(target);
    k.barrier();
    for (Turned &target : targets)
      read(target);
    return;
  }
  for (auto [i, target] : llvm::enumerate(targets)) {
    if (i)
      k.barrier();
    write(target);
    k.barrier();
    read(target);
  }
}

} // namespace msamp::codegen::cuda
