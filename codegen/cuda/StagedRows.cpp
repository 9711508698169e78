// Results with rows innermost of kernels that hold whole rows: a block stages the bytes of 64 or 32 rows in shared
// memory, two or four rows of a column at a time, and its threads store runs of 16 rows of a column.
#include "codegen/cuda/ClusterEmitter.h"

using namespace mlir;

namespace msamp::codegen::cuda {

// Columns are an odd number of words apart: each bank is used once.
void ClusterEmitter::stageRows(MutableArrayRef<Row> rows, Value step) {
  Value first = k.remainder(step, s.shareSteps());
  first = k.mul(first, s.teams);
  first = k.add(first, k.resize(team, first.getType()));
  first = k.resize(k.mul(first, s.rowsAtOnce), k.i32());
  Value start = k.add(k.mul(lane, s.stagedPitch()), first);
  for (const Turned &target : staged) {
    Value at = k.address(target.buffer, start, target.element);
    for (int64_t c = 0; c < s.chunks; ++c) {
      SmallVector<Value> parts;
      for (Row &row : rows)
        parts.push_back(inMemory(row, target, c));
      for (auto [j, column] : llvm::enumerate(turnRows(k, parts, target.element, s.chunk))) {
        int64_t line = (c * s.chunk + static_cast<int64_t>(j)) * s.lanes;
        k.store(column, k.address(at, line * s.stagedPitch(), target.element), target.element, s.rowsAtOnce);
      }
    }
  }
}

// After the last step of a tile.
void ClusterEmitter::storeStaged(Value step) {
  int64_t perTile = s.shareSteps(), runs = s.stagedRows / 16;
  Value last = k.equal(k.remainder(step, perTile), perTile - 1);
  k.when(last, [&] {
    k.barrier();
    // Of many threads the registers are for the rows.
    Value thread = s.block() > 256 ? k.computedHere(this->thread) : this->thread;
    Value tileRow = k.mul(k.divide(step, perTile), s.groups);
    tileRow = k.add(tileRow, k.resize(group, step.getType()));
    tileRow = k.mul(tileRow, s.stagedRows);
    Value end = k.integer(s.tileWidth() * runs), by = k.integer(s.block());
    k.loop(thread, end, by, {}, [&](Value item, ValueRange) -> SmallVector<Value> {
      Value line = k.divide(item, runs), above = k.mul(k.remainder(item, runs), 16), column = columnOf(line);
      Value row = k.add(tileRow, k.resize(above, step.getType())), inside;
      if (!s.evenSteps())
        inside = k.less(row, d.rows);
      if (s.tileWidth() != s.inner)
        inside = k.both(inside, k.less(column, s.inner));
      Value from = k.add(k.mul(line, s.stagedPitch()), above);
      for (const Turned &target : staged) {
        Value at = k.address(target.buffer, from, target.element);
        SmallVector<Value> words;
        for (int64_t r = 0; r < 4; ++r)
          words.push_back(k.load(k.address(at, 4 * r, target.element), k.i32(), 0));
        Value to = k.mul(k.resize(column, k.i64()), target.view->stride(d.inner));
        to = k.add(to, k.resize(row, k.i64()));
        to = k.add(to, target.view->offset);
        k.when(inside, [&] { k.storePart(words, k.address(target.output, to, target.element)); });
      }
      return {};
    });
    // Before the next rows are staged; a barrier of the whole block lies in their reductions otherwise.
    if (s.teams > 1 || s.lanes <= 32)
      k.barrier();
  });
}

} // namespace msamp::codegen::cuda
