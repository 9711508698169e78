#include "codegen/cuda/Values.h"

using namespace mlir;

namespace msamp::codegen::cuda {

using fuse::View;

Values::Values(CudaBuilder &k, ClusterOp cluster, const Schedule &s) : k(k), body(cluster.getBody().front()), s(s) {
  const auto &d = s.domain;
  auto sorted = [](const View &view) {
    SmallVector<std::pair<int, int64_t>> list(view.strides);
    llvm::sort(list);
    return list;
  };
  SmallVector<Value> known;
  for (Value v : s.loads) {
    const View &view = d.views.find(v)->second;
    Value base = d.viewBase.lookup(v), same;
    for (Value other : known) {
      const View &that = d.views.find(other)->second;
      if (d.viewBase.lookup(other) == base && that.offset == view.offset && sorted(that) == sorted(view) &&
          d.isFull(other) == d.isFull(v))
        same = other;
    }
    representatives[v] = same ? same : v;
    if (same)
      continue;
    known.push_back(v);
    if (dependsOnRow(v))
      rowLoads.push_back(v);
    else if (d.isFull(v))
      columnLoads.push_back(v);
  }
}

Operation *Values::definition(Value v) const {
  Operation *op = v.getDefiningOp();
  return op && op->getBlock() == &body ? op : nullptr;
}

bool Values::dependsOnRow(Value view) const {
  for (auto &[leaf, stride] : s.domain.views.find(view)->second.strides)
    if (stride && llvm::is_contained(s.domain.outer, leaf))
      return true;
  return false;
}

Value Values::canonical(Value view) const {
  auto it = representatives.find(view);
  return it == representatives.end() ? view : it->second;
}

Row Values::row(Value index, Value active) {
  const auto &d = s.domain;
  Row row;
  row.index = index;
  row.active = active;
  Value rest = index;
  for (size_t i = d.outer.size(); i-- > 0;) {
    int leaf = d.outer[i];
    if (i == 0) {
      row.leaves[leaf] = rest;
      break;
    }
    row.leaves[leaf] = k.remainder(rest, d.leafSize[leaf]);
    rest = k.divide(rest, d.leafSize[leaf]);
  }
  row.vectors.resize(s.chunks);
  return row;
}

void Values::newColumns(Row &row) {
  row.vectors.clear();
  row.vectors.resize(s.chunks);
  row.leads.clear();
}

//===--- Addresses ---===//

int64_t Values::extent(const View &view) const {
  int64_t last = view.offset;
  for (auto &[leaf, stride] : view.strides)
    if (static_cast<size_t>(leaf) < s.domain.leafSize.size())
      last += stride * (s.domain.leafSize[leaf] - 1);
  return last + 1;
}

// Of the row's first element, in elements: in 32 bits where the whole tensor allows it.
Value Values::offset(Row &row, const View &view) {
  Value &known = row.offsets[&view];
  if (known)
    return known;
  Type type = extent(view) < (int64_t(1) << 31) ? k.i32() : k.i64();
  Value at;
  for (auto &[leaf, stride] : view.strides) {
    auto it = row.leaves.find(leaf);
    if (leaf == s.domain.inner || it == row.leaves.end() || !stride)
      continue;
    Value index = k.resize(it->second, type);
    Value step = k.mul(index, stride);
    at = at ? k.add(at, step) : step;
  }
  at = at ? k.add(at, view.offset) : k.integer(type, view.offset);
  return row.offsets[&view] = at;
}

Value Values::rowPointer(Row &row, const View &view, Value base, Type element) {
  Value at = offset(row, view);
  return k.address(base, at, element);
}

Value Values::pointer(Row &row, const View &view, Value base, Type element, int64_t chunk) {
  int64_t stride = view.stride(s.domain.inner);
  if (!columns.active[chunk]) {
    // Chunks are a constant apart, which goes into the instruction.
    Value &lead = row.leads[&view];
    if (chunk == 0 && lead)
      return lead;
    if (chunk > 0 && !columns.active[0]) {
      Value first = pointer(row, view, base, element, 0);
      return k.address(first, chunk * columns.step * stride, element);
    }
  }
  Value rowAt = offset(row, view);
  Value column = k.resize(columns.at[chunk], rowAt.getType());
  Value step = k.mul(column, stride);
  Value at = k.add(rowAt, step);
  Value result = k.address(base, at, element);
  if (chunk == 0 && !columns.active[0])
    row.leads[&view] = result;
  return result;
}

//===--- Loads ---===//

Value Values::loadScalar(Row &row, Value v) {
  const View &view = s.domain.views.find(v)->second;
  Type element = elementOf(v);
  Value at = rowPointer(row, view, pointers[s.domain.viewBase.lookup(v)], element);
  return k.load(at, element, 0);
}

Value Values::loadVector(Row &row, Value v, int64_t chunk) {
  const View &view = s.domain.views.find(v)->second;
  Type element = elementOf(v);
  Value at = pointer(row, view, pointers[s.domain.viewBase.lookup(v)], element, chunk);
  return loadAt(at, view, element);
}

Value Values::loadAt(Value at, const View &view, Type element) {
  int64_t stride = view.stride(s.domain.inner);
  if (stride == 1 || !width())
    return k.load(at, element, width(), alignmentOf(view, s.domain.inner, s.chunk) * CudaBuilder::bytesOf(element));
  Value vector;
  for (int64_t i = 0; i < width(); ++i) {
    Value here = k.address(at, i * stride, element);
    Value one = k.load(here, element, 0);
    vector = i ? Value(vector::InsertOp::create(k.b, one, vector, ArrayRef<int64_t>{i})) : k.splat(one, width());
  }
  return vector;
}

void Values::placeRow(Row &row) {
  for (Value v : s.loads)
    offset(row, s.domain.views.find(v)->second);
  for (Value out : body.getTerminator()->getOperands())
    for (auto &store : s.domain.stores.find(out)->second)
      offset(row, store.view);
}

void Values::loadRow(Row &row) {
  for (Value v : rowLoads)
    if (!isFull(v))
      row.scalars[v] = loadScalar(row, v);
  for (Value v : rowLoads)
    if (isFull(v))
      for (int64_t c = 0; c < s.chunks; ++c)
        row.vectors[c][v] = loadVector(row, v, c);
}

SmallVector<Value> Values::loaded(Row &row) {
  SmallVector<Value> values;
  for (Value v : rowLoads) {
    if (!isFull(v))
      values.push_back(row.scalars[v]);
    else
      for (int64_t c = 0; c < s.chunks; ++c)
        values.push_back(row.vectors[c][v]);
  }
  return values;
}

void Values::setLoaded(Row &row, ValueRange values) {
  size_t i = 0;
  for (Value v : rowLoads) {
    if (!isFull(v))
      row.scalars[v] = values[i++];
    else
      for (int64_t c = 0; c < s.chunks; ++c)
        row.vectors[c][v] = values[i++];
  }
}

void Values::loadColumns() {
  kept.resize(s.chunks);
  Row none = row(k.integer(0), {});
  for (Value v : columnLoads)
    for (int64_t c = 0; c < s.chunks; ++c)
      kept[c][v] = loadVector(none, v, c);
}

//===--- Computation ---===//

Value Values::scalar(Row &row, Value v) {
  v = canonical(v);
  Operation *op = definition(v);
  if (isSplat(op))
    return emitSplat(k.b, op, 0);
  bool everywhere = s.domain.leaves.lookup(v).empty();
  auto &cache = everywhere ? constants : row.scalars;
  if (auto it = cache.find(v); it != cache.end())
    return it->second;
  OpBuilder::InsertionGuard guard(k.b);
  if (everywhere)
    k.b.setInsertionPoint(prologue);
  Value result;
  if (s.domain.views.contains(v)) {
    Row none;
    result = loadScalar(everywhere ? none : row, v);
  } else if (auto iotaOp = dyn_cast<IotaOp>(op)) {
    result = iota(row, iotaOp, 0, false);
  } else if (s.domain.reductions.contains(op)) {
    result = scalar(row, op->getOperand(0)); // over sizes of 1; others are known before they are asked for
  } else {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(scalar(row, operand));
    result = emitBodyOp(k.b, op, operands, 0);
  }
  (everywhere ? constants : row.scalars)[v] = result;
  return result;
}

Value Values::vector(Row &row, Value v, int64_t chunk) {
  v = canonical(v);
  Operation *op = definition(v);
  if (isSplat(op))
    return emitSplat(k.b, op, width());
  if (!isFull(v))
    return k.splat(scalar(row, v), width());
  if (auto it = row.vectors[chunk].find(v); it != row.vectors[chunk].end())
    return it->second;
  if (!kept.empty())
    if (auto it = kept[chunk].find(v); it != kept[chunk].end())
      return it->second;
  Value result;
  if (s.domain.views.contains(v)) {
    result = loadVector(row, v, chunk);
  } else if (auto iotaOp = dyn_cast<IotaOp>(op)) {
    result = iota(row, iotaOp, chunk, true);
  } else if (s.domain.reductions.contains(op)) {
    result = vector(row, op->getOperand(0), chunk); // over sizes of 1
  } else {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(vector(row, operand, chunk));
    result = emitBodyOp(k.b, op, operands, width());
  }
  return row.vectors[chunk][v] = result;
}

Value Values::iota(Row &row, IotaOp op, int64_t chunk, bool full) {
  Type element = elementOf(op.getResult());
  int64_t last = 0;
  auto &list = s.domain.iotas.find(op)->second;
  for (auto &[leaf, multiplier] : list)
    if (static_cast<size_t>(leaf) < s.domain.leafSize.size())
      last += multiplier * (s.domain.leafSize[leaf] - 1);
  Type type = last < (int64_t(1) << 31) ? k.i32() : k.i64();
  Value base = k.integer(type, 0), steps;
  for (auto &[leaf, multiplier] : list) {
    Value at;
    if (leaf == s.domain.inner) {
      at = columns.at[chunk];
      SmallVector<int64_t> offsets;
      for (int64_t i = 0; i < width(); ++i)
        offsets.push_back(i * multiplier);
      if (full && width()) {
        auto wide = VectorType::get({width()}, k.i64());
        steps = arith::ConstantOp::create(k.b, DenseElementsAttr::get(wide, ArrayRef<int64_t>(offsets)));
        if (type == k.i32())
          steps = arith::TruncIOp::create(k.b, widen(type, width()), steps);
      }
    } else {
      at = row.leaves.lookup(leaf);
      if (!at)
        continue; // a dimension that is not looped over: of size 1
    }
    Value index = k.resize(at, type), scaled = k.mul(index, multiplier);
    base = k.add(base, scaled);
  }
  Value result = full ? k.splat(base, width()) : base;
  if (steps)
    result = arith::AddIOp::create(k.b, result, steps);
  Type to = full ? widen(element, width()) : element;
  unsigned have = type.getIntOrFloatBitWidth(), want = element.getIntOrFloatBitWidth();
  if (want > have)
    result = arith::ExtUIOp::create(k.b, to, result);
  else if (want < have)
    result = arith::TruncIOp::create(k.b, to, result);
  return result;
}

void Values::storeAt(Value value, Value at, const View &view, Type element) {
  int64_t stride = view.stride(s.domain.inner);
  if (stride == 1 || !width()) {
    k.store(value, at, element, alignmentOf(view, s.domain.inner, s.chunk) * CudaBuilder::bytesOf(element));
    return;
  }
  for (int64_t i = 0; i < width(); ++i) {
    Value one = k.extract(value, i);
    Value here = k.address(at, i * stride, element);
    k.store(one, here, element);
  }
}

} // namespace msamp::codegen::cuda
