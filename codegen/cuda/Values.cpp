#include "codegen/cuda/Values.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace msamp::codegen::cuda {

using fuse::View;

Values::Values(CudaBuilder &k, ClusterOp cluster, const Schedule &s) : k(k), body(cluster.getBody().front()), s(s) {
  const auto &d = s.domain;
  for (Value v : s.loads) {
    if (canonical(v) != v)
      continue;
    if (s.ahead && llvm::is_contained(s.held, v))
      continue;
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
  auto it = s.representatives.find(view);
  return it == s.representatives.end() ? view : it->second;
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
  if (auto copied = row.copies.find(v); copied != row.copies.end() && !single)
    return loadCopied(copied->second, v, chunk);
  if (auto it = held.find(v); it != held.end() && !single)
    return loadHeld(row, v, chunk, it->second);
  Value at = pointer(row, view, pointers[s.domain.viewBase.lookup(v)], element, chunk);
  return loadAt(at, view, element);
}

// As bits: there is nothing to be computed on the way.
Value Values::fromBits(Value bits, Type element) {
  if (element.isInteger(1)) {
    Value zero = k.integer(bits.getType(), 0);
    return arith::CmpIOp::create(k.b, arith::CmpIPredicate::ne, bits, zero);
  }
  return elementOf(bits) == element ? bits : Value(arith::BitcastOp::create(k.b, widen(element, width()), bits));
}

Value Values::loadCopied(Value buffer, Value v, int64_t chunk) {
  Type element = elementOf(v), bits = k.b.getIntegerType(8 * CudaBuilder::bytesOf(element));
  Value here = k.address(buffer, columns.at[chunk], bits);
  return fromBits(k.load(here, bits, width(), s.chunk * CudaBuilder::bytesOf(element)), element);
}

void Values::copy(Row &row, Value v, Value buffer) {
  Type bits = k.b.getIntegerType(8 * CudaBuilder::bytesOf(elementOf(v)));
  for (size_t c = 0; c < columns.at.size(); ++c) {
    Value from = pointer(row, s.domain.views.find(v)->second, pointers[s.domain.viewBase.lookup(v)], bits, c);
    Value to = k.address(buffer, columns.at[c], bits);
    Value active = k.both(row.active, columns.active[c]);
    k.when(active, [&] { k.copyAsync(to, from, s.chunk * CudaBuilder::bytesOf(bits)); });
  }
}

void Values::copyRow(Row &row) {
  for (Value v : s.held)
    copy(row, v, row.copies.lookup(v));
}

Value Values::loadHeld(Row &row, Value v, int64_t chunk, const Held &place) {
  const View &view = s.domain.views.find(v)->second;
  Type element = elementOf(v), bits = k.b.getIntegerType(8 * CudaBuilder::bytesOf(element));
  int64_t alignment = s.chunk * CudaBuilder::bytesOf(element);
  Value here = k.address(place.buffer, columns.at[chunk], bits), word;
  if (stage > place.stage) {
    word = k.load(here, bits, width(), alignment);
  } else {
    Value at = pointer(row, view, pointers[s.domain.viewBase.lookup(v)], bits, chunk);
    word = loadAt(at, view, bits);
    k.when(columns.active[chunk], [&] { k.store(word, here, bits, alignment); });
  }
  return fromBits(word, element);
}

Value Values::loadAt(Value at, const View &view, Type element) {
  int64_t stride = view.stride(s.domain.inner);
  if (!width())
    return k.load(at, element, 0);
  if (stride == 1)
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
  // Without loops and without a reduction of rows before it: of a single row such a reduction is a value without leaves, too.
  bool everywhere = s.domain.leaves.lookup(v).empty() && s.domain.stage.lookup(v) == 0;
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
  if (!kept.empty() && !single)
    if (auto it = kept[chunk].find(v); it != kept[chunk].end())
      return it->second;
  Value result;
  if (s.domain.views.contains(v)) {
    result = loadVector(row, v, chunk);
  } else if (auto iotaOp = dyn_cast<IotaOp>(op)) {
    result = iota(row, iotaOp, chunk, true);
  } else if (s.domain.reductions.contains(op)) {
    result = vector(row, op->getOperand(0), chunk); // over sizes of 1
  } else if (Value name = naming(op); name && columns.at[chunk].getType() == k.i32()) {
    result = isNamedColumn(row, name, chunk);
  } else if (takesFromNamed(op) && width() && columns.at[chunk].getType() == k.i32()) {
    result = takeFromNamed(row, op, chunk);
  } else {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(vector(row, operand, chunk));
    result = emitBodyOp(k.b, op, operands, width());
  }
  return row.vectors[chunk][v] = result;
}

Value Values::naming(Operation *op) const {
  auto comparison = dyn_cast_or_null<arith::CmpIOp>(op);
  if (!comparison || comparison.getPredicate() != arith::CmpIPredicate::eq || s.inner >= (int64_t(1) << 31))
    return {};
  auto numbersColumns = [&](Value v) {
    auto op = dyn_cast_or_null<IotaOp>(definition(v));
    if (!op || elementOf(v).getIntOrFloatBitWidth() < 32)
      return false;
    auto &list = s.domain.iotas.find(op)->second;
    return list.size() == 1 && list[0] == std::pair<int, int64_t>(s.domain.inner, 1);
  };
  // What is repeated along the row; null for what varies.
  auto ofRow = [&](Value v) {
    while (isFull(v)) {
      auto op = dyn_cast_or_null<BroadcastOp>(definition(v));
      if (!op)
        return Value();
      v = op.getInput();
    }
    return v;
  };
  if (numbersColumns(comparison.getLhs()))
    return ofRow(comparison.getRhs());
  return numbersColumns(comparison.getRhs()) ? ofRow(comparison.getLhs()) : Value();
}

// That column in 32 bits; -1 if there is none.
Value Values::namedColumn(Row &row, Value name) {
  Value value = scalar(row, name);
  Value inside = k.less(value, s.inner), narrow = k.resize(value, k.i32()), none = k.integer(-1);
  return k.select(inside, narrow, none);
}

// Whether the chunk's columns are that one: a comparison with a constant each.
Value Values::isNamedColumn(Row &row, Value name, int64_t chunk) {
  Value within = namedColumn(row, name);
  within = arith::SubIOp::create(k.b, within, columns.at[chunk]);
  if (!width())
    return k.equal(within, 0);
  SmallVector<int32_t> offsets;
  for (int32_t i = 0; i < width(); ++i)
    offsets.push_back(i);
  auto type = VectorType::get({width()}, k.i32());
  Value numbers = arith::ConstantOp::create(k.b, DenseElementsAttr::get(type, ArrayRef<int32_t>(offsets)));
  within = k.splat(within, width());
  return arith::CmpIOp::create(k.b, arith::CmpIPredicate::eq, within, numbers);
}

// The selection of something in a named column, and of 0 in the others; null if `v` is none.
arith::SelectOp Values::ofNamed(Value v) const {
  auto select = dyn_cast_or_null<arith::SelectOp>(definition(v));
  if (!select || !naming(definition(select.getCondition())))
    return {};
  Operation *other = definition(select.getFalseValue());
  return isSplat(other) && matchPattern(other, m_AnyZeroFloat()) ? select : arith::SelectOp();
}

// Whether `op` takes something from the value of a single column of the row, as the gradient of a cross-entropy does
// from the probability of the label.
bool Values::takesFromNamed(Operation *op) const {
  auto difference = dyn_cast_or_null<arith::SubFOp>(op);
  auto select = difference ? ofNamed(difference.getRhs()) : arith::SelectOp();
  return select && isSplat(definition(select.getTrueValue()));
}

// By threads that have the column: of a row of 50304 values these are 8 of one.
Value Values::takeFromNamed(Row &row, Operation *op, int64_t chunk) {
  auto select = cast<arith::SelectOp>(definition(op->getOperand(1)));
  Value from = vector(row, op->getOperand(0), chunk), name = naming(definition(select.getCondition()));
  Value within = namedColumn(row, name);
  Value here = k.less(arith::SubIOp::create(k.b, within, columns.at[chunk]), width());
  return k.when(here, from, [&]() -> SmallVector<Value> {
    Value named = isNamedColumn(row, name, chunk);
    Value one = emitSplat(k.b, definition(select.getTrueValue()), width());
    Value none = emitSplat(k.b, definition(select.getFalseValue()), width());
    Value taken = arith::SelectOp::create(k.b, named, one, none);
    return {arith::SubFOp::create(k.b, from, taken)};
  })[0];
}

bool Values::isPick(Operation *reduction) const {
  auto it = s.domain.reductions.find(reduction);
  return it != s.domain.reductions.end() && it->second == fuse::ReductionKind::Row &&
         cast<ReduceOp>(reduction).getKind() == ReduceKind::Sum && ofNamed(reduction->getOperand(0));
}

Value Values::picked(Row &row, Operation *reduction) {
  auto select = cast<arith::SelectOp>(definition(reduction->getOperand(0)));
  Value named = namedColumn(row, naming(definition(select.getCondition()))), first = k.integer(0);
  Value there = arith::CmpIOp::create(k.b, arith::CmpIPredicate::sge, named, first);
  Value column = k.select(there, named, first);
  Row one = row;
  one.vectors.clear();
  one.vectors.resize(1);
  one.leads.clear();
  Columns chunks = std::exchange(columns, Columns{{column}, {Value()}, 0});
  single = true;
  Value value = vector(one, select.getTrueValue(), 0);
  single = false;
  columns = chunks;
  Value zero = constantOf(k.b, value.getType(), 0.0);
  return k.select(there, value, zero);
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
