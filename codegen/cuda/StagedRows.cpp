// Results with rows innermost of kernels that hold whole rows: a block stages the bytes of 16 or 32 rows in shared
// memory as they are, and its threads store runs of 16 rows of a column.
#include "codegen/cuda/ClusterEmitter.h"

using namespace mlir;

namespace msamp::codegen::cuda {

// Lines are an odd number of words apart: half a warp reads a line, the other half the one 16 rows below.
void ClusterEmitter::stageRow(Row &row, Value step) {
  Value line = k.remainder(step, s.stagedRows / s.teams);
  line = k.mul(line, s.teams);
  line = k.add(line, k.resize(team, line.getType()));
  line = k.resize(line, k.i32());
  Value start = k.mul(line, s.stagedPitch());
  start = k.add(start, k.mul(lane, s.chunk));
  for (const Turned &target : staged) {
    Value at = k.address(target.buffer, start, target.element);
    for (int64_t c = 0; c < s.chunks; ++c) {
      Value v = inMemory(row, target, c);
      Value to = k.address(at, c * values.columns.step, target.element);
      k.when(values.columns.active[c], [&] { k.store(v, to, target.element, 4); });
    }
  }
}

// After the last step of a tile.
void ClusterEmitter::storeStaged(Value step) {
  int64_t perTile = s.stagedRows / s.teams, halves = s.stagedRows / 16, all = s.inner / 4 * halves;
  Value last = k.equal(k.remainder(step, perTile), perTile - 1);
  k.when(last, [&] {
    k.barrier();
    Value tileRow = k.mul(k.divide(step, perTile), s.groups);
    tileRow = k.add(tileRow, k.resize(group, step.getType()));
    tileRow = k.mul(tileRow, s.stagedRows);
    Value end = k.integer(all), by = k.integer(s.block());
    k.loop(thread, end, by, {}, [&](Value item, ValueRange) -> SmallVector<Value> {
      Value half = k.remainder(item, halves), word = k.divide(item, halves), above = k.mul(half, 16);
      Value row = k.add(tileRow, k.resize(above, step.getType())), inside;
      if (d.rows % (s.stagedRows * s.groups))
        inside = k.less(row, d.rows);
      Value line = k.mul(above, s.stagedPitch());
      line = k.add(line, k.mul(word, 4));
      for (const Turned &target : staged) {
        Value from = k.address(target.buffer, line, target.element);
        SmallVector<SmallVector<Value>> columns(4); // words of four rows
        for (int64_t r = 0; r < 16; r += 4) {
          SmallVector<Value> rows;
          for (int64_t i = 0; i < 4; ++i) {
            Value at = k.address(from, (r + i) * s.stagedPitch(), target.element);
            rows.push_back(k.load(at, target.element, 4, 4));
          }
          for (auto [j, column] : llvm::enumerate(turnRows(k, rows, target.element, 4))) {
            Value whole = vector::BitCastOp::create(k.b, VectorType::get({1}, k.i32()), column);
            columns[j].push_back(k.extract(whole, 0));
          }
        }
        int64_t stride = target.view->stride(d.inner);
        Value to = k.mul(k.resize(word, k.i64()), 4 * stride);
        to = k.add(to, k.resize(row, k.i64()));
        to = k.add(to, target.view->offset);
        to = k.address(target.output, to, target.element);
        k.when(inside, [&] {
          for (int64_t j = 0; j < 4; ++j) {
            Value run = vector::FromElementsOp::create(k.b, VectorType::get({4}, k.i32()), columns[j]);
            k.store(run, k.address(to, j * stride, target.element), k.i32(), 16);
          }
        });
      }
      return {};
    });
    k.barrier();
  });
}

} // namespace msamp::codegen::cuda
