#include "codegen/cuda/Schedule.h"
#include "codegen/kernel/BodyOps.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace msamp::codegen::cuda {
namespace {

using fuse::ClusterDomain;
using fuse::ReductionKind;
using fuse::View;

int64_t ceilDiv(int64_t x, int64_t y) {
  return (x + y - 1) / y;
}

bool sameElements(const View &a, const View &b) {
  auto sorted = [](const View &view) {
    SmallVector<std::pair<int, int64_t>> list(view.strides);
    llvm::sort(list);
    return list;
  };
  return a.offset == b.offset && sorted(a) == sorted(b);
}

// Partial results start at multiples of 16 bytes.
int64_t padded(int64_t values) {
  return ceilDiv(values, 4) * 4;
}

class Scheduler {
public:
  Scheduler(ClusterOp cluster, const Target &target, ClusterDomain domain)
      : cluster(cluster), body(cluster.getBody().front()), target(target), d(domain) {
    s.domain = std::move(domain);
    s.inner = d.inner < 0 ? 1 : d.leafSize[d.inner];
  }

  Schedule run() {
    collect();
    s.turned = storesTurned();
    s.chunk = chunkOf();
    if (s.has(ReductionKind::Row))
      byRows();
    else
      byTiles();
    return std::move(s);
  }

private:
  void collect() {
    for (Operation &op : body.without_terminator()) {
      auto it = d.reductions.find(&op);
      if (it == d.reductions.end())
        continue;
      bool identity =
          it->second == ReductionKind::Row && d.leaves[op.getOperand(0)].size() == d.leaves[op.getResult(0)].size();
      if (!identity)
        s.reductions.push_back({&op, it->second});
    }
    llvm::SmallPtrSet<void *, 16> seen;
    auto add = [&](Value v) {
      if (d.views.contains(v) && seen.insert(v.getAsOpaquePointer()).second)
        s.loads.push_back(v);
    };
    for (Operation &op : body.without_terminator())
      if (!op.getNumResults() || !d.views.contains(op.getResult(0)))
        for (Value v : op.getOperands())
          add(v);
    for (Value out : body.getTerminator()->getOperands())
      for (auto &store : d.stores[out])
        add(store.value);
    for (Value v : s.loads) {
      Value &same = s.representatives[v] = v;
      for (Value other : s.loads)
        if (other == v)
          break;
        else if (d.viewBase[other] == d.viewBase[v] && d.isFull(other) == d.isFull(v) &&
                 sameElements(d.views[other], d.views[v])) {
          same = s.representatives[other];
          break;
        }
    }
  }

  // Elements a chunk: 16 bytes of the widest type that there is much of, and rows must be whole chunks.
  int64_t chunkOf() {
    if (d.inner < 0)
      return 1;
    int64_t widest = 1, narrowest = 8;
    auto consider = [&](Value v) {
      if (!d.isFull(v) || isSplat(v.getDefiningOp()))
        return;
      int64_t bytes = std::max(1u, elementOf(v).getIntOrFloatBitWidth() / 8);
      widest = std::max(widest, bytes), narrowest = std::min(narrowest, bytes);
    };
    for (Value v : s.loads)
      if (d.leaves[v].size() > 1 || d.outer.empty())
        consider(v);
    for (Value out : body.getTerminator()->getOperands())
      for (auto &store : d.stores[out])
        if (!isa_and_present<ReduceOp>(store.value.getDefiningOp()))
          consider(store.value);
    bool columns = s.has(ReductionKind::Column) || s.has(ReductionKind::OuterColumn);
    int64_t most = widest <= 2 && narrowest == 1 && !columns ? 16 : 8;
    if (s.turned)
      most = widest == 1 ? 16 : widest == 2 && (rowInputs() == 1 || isWideTurned()) ? 8 : 4;
    while (s.inner % most)
      most /= 2;
    return most;
  }

  // Two inputs, and whole tiles of 128 columns: conditions at their ends would take the registers.
  bool isWideTurned() {
    return rowInputs() == 2 && s.inner % 128 == 0;
  }

  bool storesTurned() {
    if (s.has(ReductionKind::Row) || s.has(ReductionKind::OuterColumn) || d.outer.empty() || s.inner % 4)
      return false;
    for (Value out : body.getTerminator()->getOperands())
      for (auto &store : d.stores[out])
        if (d.isFull(store.value) && s.isTurned(store.view))
          return true;
    return false;
  }

  // Results with rows innermost that rows in registers can be staged for: single bytes, in runs of 16 rows.
  bool mayStage() {
    auto stores = s.turnedStores(cluster);
    return !stores.empty() && d.rows % 16 == 0 && s.chunk % 4 == 0 && llvm::all_of(stores, [&](auto &store) {
      return elementOf(store.value).getIntOrFloatBitWidth() == 8 && store.view.offset % 16 == 0;
    });
  }

  // Full inputs that differ from row to row.
  int64_t rowInputs() {
    int64_t count = 0;
    for (Value v : s.loads)
      count += s.representatives[v] == v && d.isFull(v) && d.leaves[v].size() > 1;
    return std::max<int64_t>(count, 1);
  }

  // Inputs with a value a column, the same for all rows.
  int64_t columnInputs() {
    return llvm::count_if(s.loads,
                          [&](Value v) { return s.representatives[v] == v && d.isFull(v) && d.leaves[v].size() == 1; });
  }

  // Values of a row that threads hold: the fewest threads for which that is not more than `most` each, unless a few
  // more leave fewer of them idle. 0: there are too many.
  bool pickLanes(int64_t most, int64_t mostLanes) {
    int64_t perRow = s.inner / s.chunk;
    double best = 0;
    for (int64_t lanes = 1; lanes <= mostLanes; lanes = lanes < 32 ? lanes * 2 : lanes + 32) {
      int64_t chunks = ceilDiv(perRow, lanes);
      if (chunks * s.chunk > most && chunks > 1)
        continue;
      if (best && lanes > 2 * s.lanes)
        break;
      double used = static_cast<double>(perRow) / static_cast<double>(lanes * chunks);
      if (best && used < best + 0.06)
        continue;
      best = used;
      s.lanes = lanes, s.chunks = chunks;
    }
    return best > 0;
  }

  void byRows() {
    bool columns = s.has(ReductionKind::Column), outerColumns = s.has(ReductionKind::OuterColumn);
    bool scalars = s.has(ReductionKind::Scalar) || s.has(ReductionKind::RowScalar);
    int64_t units = d.rows / d.reducedRows;
    bool fits, staged = !outerColumns && mayStage();
    if (columns || outerColumns || staged)
      fits = pickLanes(8, 512) || pickLanes(16, 512) || pickLanes(32, 512);
    else
      fits = pickLanes(rowInputs() > 1 ? 32 : 64, 256) || pickLanes(64, 512);
    if (!fits) {
      stream();
      return;
    }
    bool few = s.chunk * s.chunks <= 8; // values a thread: registers are left for two rows, or to load ahead
    auto twoRows = [&] {
      s.rowsAtOnce = few && 2 * s.rowStride() <= s.rowLimit() ? 2 : 1;
      s.prefetch = s.steps() > 1 && few && rowInputs() <= 2;
    };
    if (outerColumns) {
      s.teams = std::min(std::max<int64_t>(1, 256 / s.lanes), std::max<int64_t>(1, d.reducedRows));
      s.groups = units;
      twoRows();
      // Blocks that last: one for each unit has nothing to do until its first rows come, and leaves partial sums.
      if (few && d.reducedRows % (s.teams * s.rowsAtOnce) == 0)
        s.groups = std::min<int64_t>(units, std::max<int64_t>(1, 512 / s.block()) * target.multiprocessors);
    } else if (columns) {
      s.teams = std::max<int64_t>(1, 256 / s.lanes);
      s.groups = std::min<int64_t>(ceilDiv(d.rows, s.teams), (s.lanes > 256 ? 1 : 2) * target.multiprocessors);
      twoRows();
    } else if (!staged) {
      s.teams = std::max<int64_t>(1, (scalars || s.lanes < 32 ? 128 : 64) / s.lanes);
      s.groups = ceilDiv(d.rows, s.teams);
      if (scalars && s.lanes > 32)
        walkRows();
    }
    if (s.lanes > 32)
      s.teams = std::min<int64_t>(s.teams, 15); // a barrier each
    if (staged)
      stage();
    if ((columns || outerColumns) && !s.stagedRows && !few)
      holdRows();
    if (columns || outerColumns || s.stagedRows) {
      s.keepColumns = s.chunk * s.chunks <= 8;
      s.blocksPerMultiprocessor = s.stagedRows || s.block() > 256 ? 1 : 512 / s.block();
    }
  }

  // How many rows follow each other before what an input gives them repeats, as positions do over a batch; 0: no input does.
  int64_t repeatingRows() {
    int64_t period = 0;
    for (Value v : s.loads) {
      if (!d.isFull(v) || d.leaves[v].size() < 2)
        continue;
      int64_t rows = d.rows;
      size_t absent = 0;
      for (; absent < d.outer.size() && !llvm::is_contained(d.leaves[v], d.outer[absent]); ++absent)
        rows /= d.leafSize[d.outer[absent]];
      if (absent)
        period = std::max(period, rows);
    }
    return period;
  }

  // Where an input repeats, blocks that last go over the rows that it repeats for: it is in the L1 cache then, and the next
  // row is on its way. On an H200, embedding and norm: 91 % of a copy instead of 82 with 2048 columns, 84 instead of 72 with
  // 4096; where a warp has a row that is no gain.
  void walkRows() {
    const int64_t period = repeatingRows();
    const Schedule before = s;
    if (period && rowInputs() <= 2 && pickLanes(16, 512)) {
      s.teams = std::max<int64_t>(1, 128 / s.lanes);
      s.blocksPerMultiprocessor = std::max<int64_t>(1, 1024 / s.block());
      s.prefetch = s.keepColumns = true;
      // The fewest blocks that fill their waves.
      const int64_t wave = s.blocksPerMultiprocessor * target.multiprocessors;
      for (int64_t rows = period; 2 * rows <= d.rows && rows <= 4 * wave * s.teams; rows += period) {
        s.groups = rows / s.teams;
        if (rows % s.teams == 0 && 10 * s.groups >= 9 * ceilDiv(s.groups, wave) * wave)
          return;
      }
    }
    s = before;
  }

  // Sums of columns fill the registers: what rows load is copied ahead to shared memory, and read there by each stage.
  void holdRows() {
    const Schedule before = s;
    s.ahead = true;
    s.chunk = std::min<int64_t>(s.chunk, 4);
    for (Value v : s.loads)
      if (s.representatives[v] == v && d.isFull(v) && s.isCopyable(v)) {
        auto &list = d.leaves[v].size() > 1 ? s.held : s.heldColumns;
        list.push_back(v);
        if (s.sharedBytes(cluster) > target.roomForRows())
          list.pop_back();
      }
    if (s.held.empty() || s.steps() == 1) {
      s = before;
      return;
    }
    int64_t perRow = s.inner / s.chunk;
    s.chunks = ceilDiv(perRow, 384);
    s.lanes = ceilDiv(ceilDiv(perRow, s.chunks), 32) * 32;
    s.prefetch = true;
  }

  // Two blocks a multiprocessor: the rows at work have to stay in the L2 cache, or in shared memory.
  void stream() {
    bool columns = s.has(ReductionKind::Column), outerColumns = s.has(ReductionKind::OuterColumn);
    s.streamed = true;
    bool stores = llvm::any_of(body.getTerminator()->getOperands(), [&](Value out) { return d.isFull(out); });
    s.lanes = 512, s.chunks = (stores ? 2 : 4) * (s.chunk >= 8 ? 1 : 2);
    s.blocksPerMultiprocessor = 2;
    s.groups = outerColumns ? d.rows / d.reducedRows
               : columns    ? std::min<int64_t>(d.rows, 4 * target.multiprocessors)
                            : d.rows;
    for (Value v : s.loads) {
      auto [first, last] = s.stagesOf(v, cluster);
      if (s.representatives[v] != v || first == last)
        continue;
      s.held.push_back(v);
      if (2 * s.sharedBytes(cluster) > target.roomForRows())
        s.held.pop_back();
    }
    if (!s.held.empty())
      s.chunks = std::max<int64_t>(1, s.chunks / 2);
    if (stores)
      copyAhead();
  }

  // One block a multiprocessor that walks over rows, where the next one has room beside the current one: what it reads
  // is on its way all the time.
  void copyAhead() {
    int64_t bytes = 2 * s.heldRowBytes(), groups = std::min<int64_t>(s.groups, target.multiprocessors);
    if (s.byUnit() || s.held.empty() || groups == s.groups || bytes > target.roomForRows() ||
        !llvm::all_of(s.held, [&](Value v) { return s.isCopyable(v); }))
      return;
    s.ahead = true;
    s.groups = groups;
    s.blocksPerMultiprocessor = 1;
    s.lanes = 1024;
    s.chunks = 1;
  }

  // 64 rows, or 32: shorter runs cost more to write than a kernel for the copy alone. One block a multiprocessor. With
  // 64 rows its 512 threads have registers for two rows and the next two, and there are warps at work while others wait
  // for sums of rows: on an H200 162 us instead of 171 for the gradients of a norm of 2048 columns. With 32, where
  // there are two such results, that was no gain (227 us instead of 222): fewer threads have registers for four rows
  // and, unless there is much to load, the next four. The rest of a line is another block's, which is not there at the
  // same time: the L2 cache is told to keep what is incomplete (148 us instead of 156, and 221 instead of 226). What
  // limits these kernels is how they write: without any arithmetic they take as long, and without the results with rows
  // innermost 0.7 of it. Two blocks of a cluster that exchange half of their columns, for runs of 64, were no gain (228
  // us), nor were 64 rows, of which registers hold a part (222: twice as much is incomplete at a time).
  void stage() {
    for (int64_t rows : {64, 32}) {
      s.stagedRows = rows;
      if (s.sharedBytes(cluster) <= target.roomForRows())
        break;
      s.stagedRows = 0; // each value on its own
    }
    bool pairs = s.stagedRows == 64;
    s.rowsAtOnce = pairs ? 2 : 4;
    if (!s.stagedRows) {
      s.rowsAtOnce = 1;
      if (!s.has(ReductionKind::Column))
        s.groups = ceilDiv(d.rows, s.teams);
      return;
    }
    s.teams = std::clamp<int64_t>((pairs ? 512 : 384) / s.lanes, 1, s.stagedRows / s.rowsAtOnce);
    while (s.stagedRows % (s.teams * s.rowsAtOnce))
      --s.teams;
    s.groups = std::min<int64_t>(ceilDiv(d.rows, s.stagedRows), (pairs ? 1 : 2) * target.multiprocessors);
    s.prefetch = pairs || s.block() <= 256 || rowInputs() <= 2;
  }

  void byTiles() {
    bool columns = s.has(ReductionKind::Column), outerColumns = s.has(ReductionKind::OuterColumn);
    bool scalars = s.has(ReductionKind::Scalar) || s.has(ReductionKind::RowScalar);
    int64_t perRow = s.inner / s.chunk, units = d.rows / d.reducedRows;
    if (s.turned) {
      // Four rows of a column are one access to shared memory. Of one input tiles have 64 columns and 128 rows. Of two,
      // 128 columns and 64 rows: what a row reads and writes at a time is 256 and 128 bytes, and no run is shorter than
      // 64. On an H200, dGELU with three results of 8192 columns: 509 us against 560 with 32 columns and 128 rows, and
      // 519 with 64 and 64; with one input wider tiles were no gain.
      const bool wide = s.chunk == 8 && isWideTurned();
      s.lanes = wide ? 16 : 8, s.teams = wide ? 16 : 32, s.rowsAtOnce = 4;
      s.tiles = ceilDiv(perRow, s.lanes);
      s.groups = ceilDiv(d.rows, s.teams * s.rowsAtOnce);
      s.blocksPerMultiprocessor = s.chunk == 4 ? 5 : s.chunk == 8 ? 4 : 3;
      if (target.capability >= 100) // whose assembler takes some registers more
        --s.blocksPerMultiprocessor;
      // Of 16 or 32 values at a time the polynomials of an erf (exact GELU) took 764 bytes of local memory with 4 blocks.
      if (llvm::any_of(body, [](Operation &op) { return isa<math::ErfOp>(op); }))
        s.blocksPerMultiprocessor = 2;
      // Lines of results with rows innermost that lie beside each other are written at about the same time.
      s.blocksAlongRows = wide ? 4 : 2;
      while (s.groups % s.blocksAlongRows)
        s.blocksAlongRows /= 2;
      return;
    }
    if (columns || outerColumns) {
      // Of several batch norms at once: what repeats over rows is all that fits into registers otherwise.
      while (s.chunk > 4 && (columnInputs() + rowInputs()) * s.chunk > 48)
        s.chunk /= 2, perRow *= 2;
      s.lanes = std::min<int64_t>(perRow, 32);
      s.teams = 256 / s.lanes;
      s.tiles = ceilDiv(perRow, s.lanes);
      s.rowsAtOnce = rowInputs() > 1 ? 2 : 4;
      int64_t blocks = 3 * target.multiprocessors;
      if (outerColumns) {
        s.teams = std::min(s.teams, std::max<int64_t>(1, d.reducedRows));
        s.groups = units;
      } else {
        s.groups = std::clamp<int64_t>(blocks / s.tiles, 1, std::max<int64_t>(1, d.rows / (s.teams * s.rowsAtOnce)));
      }
      while (s.rowsAtOnce > 1 && s.rowStride() * s.rowsAtOnce > s.rowLimit())
        s.rowsAtOnce /= 2;
      s.keepColumns = true;
      s.blocksPerMultiprocessor = 3;
      return;
    }
    if (d.outer.empty()) {
      s.lanes = std::min<int64_t>(perRow, 256);
      s.tiles = ceilDiv(perRow, s.lanes);
      if (scalars && !s.has(ReductionKind::RowScalar))
        s.tiles = walk(s.tiles);
      return;
    }
    if (perRow <= 256) {
      s.lanes = perRow;
      s.teams = std::max<int64_t>(1, 256 / s.lanes);
    } else {
      double best = 0;
      for (int64_t lanes = 256; lanes >= 128; lanes -= 32) {
        double used = static_cast<double>(perRow) / static_cast<double>(lanes * ceilDiv(perRow, lanes));
        if (used < best + 0.01)
          continue;
        best = used, s.lanes = lanes;
      }
    }
    s.tiles = ceilDiv(perRow, s.lanes * s.chunks);
    s.groups = ceilDiv(d.rows, s.teams);
    if (scalars)
      s.groups = walk(s.groups);
  }

  // Where blocks leave partial results there are fewer of them, two waves, and each goes over several tiles or rows: 16
  // values a thread would cost as much as their sums and what ends them. Measured on an H200 for GELU with an amax: 94
  // % of a copy against 82 %, and 87 % with blocks that are no whole waves.
  int64_t walk(int64_t blocks) {
    const int64_t perMultiprocessor = std::max<int64_t>(1, (rowInputs() == 1 ? 1280 : 1024) / s.block());
    int64_t others = s.tiles * s.groups / blocks;
    int64_t most = std::max<int64_t>(1, 2 * perMultiprocessor * target.multiprocessors / others);
    if (blocks <= most)
      return blocks;
    s.walks = s.keepColumns = true;
    s.blocksPerMultiprocessor = perMultiprocessor;
    return most;
  }

  ClusterOp cluster;
  Block &body;
  const Target &target;
  ClusterDomain d;
  Schedule s;
};

} // namespace

bool Schedule::has(ReductionKind kind) const {
  return llvm::any_of(reductions, [&](auto &entry) { return entry.second == kind; });
}

bool Schedule::isTurned(const fuse::View &store) const {
  if (store.stride(domain.inner) == 1)
    return false;
  int64_t expected = 1;
  for (int leaf : llvm::reverse(domain.outer)) {
    if (store.stride(leaf) != expected)
      return false;
    expected *= domain.leafSize[leaf];
  }
  return true;
}

SmallVector<ClusterDomain::Store> Schedule::turnedStores(ClusterOp cluster) const {
  SmallVector<ClusterDomain::Store> list;
  for (Value out : cluster.getBody().front().getTerminator()->getOperands()) {
    auto it = domain.reductions.find(out.getDefiningOp());
    if (it != domain.reductions.end() && it->second != ReductionKind::Row)
      continue;
    for (auto &store : domain.stores.find(out)->second)
      if (domain.isFull(store.value) && isTurned(store.view))
        list.push_back(store);
  }
  return list;
}

int64_t Schedule::stagedBytes(ClusterOp cluster) const {
  return stagedRows ? tileWidth() * stagedPitch() * static_cast<int64_t>(turnedStores(cluster).size()) : 0;
}

int64_t Schedule::sharedBytes(ClusterOp cluster) const {
  int64_t bytes = stagedBytes(cluster) + (ahead ? 2 * aheadBytes() : heldRowBytes());
  for (Value v : heldColumns)
    bytes += heldBytes(v);
  return bytes;
}

int64_t Schedule::heldRowBytes() const {
  int64_t bytes = 0;
  for (Value v : held)
    bytes += heldBytes(v);
  return bytes;
}

bool Schedule::isCopyable(Value v) const {
  const View &view = domain.views.find(v)->second;
  int64_t bytes = chunk * elementOf(v).getIntOrFloatBitWidth() / 8;
  return (bytes == 4 || bytes == 8 || bytes % 16 == 0) && view.stride(domain.inner) == 1 &&
         alignmentOf(view, domain.inner, chunk) == chunk;
}

int64_t Schedule::heldBytes(Value view) const {
  return ceilDiv(inner * std::max<int64_t>(1, elementOf(view).getIntOrFloatBitWidth() / 8), 16) * 16;
}

std::pair<int, int> Schedule::stagesOf(Value view, ClusterOp cluster) const {
  std::pair<int, int> stages(domain.stages, -1);
  llvm::SmallPtrSet<void *, 16> seen;
  auto visit = [&](auto &&visit, Value v, int stage) -> void {
    if (!domain.isFull(v) || !seen.insert(v.getAsOpaquePointer()).second)
      return;
    if (v == view || (representatives.contains(v) && representatives.lookup(v) == view))
      stages = {std::min(stages.first, stage), std::max(stages.second, stage)};
    else if (Operation *op = v.getDefiningOp(); op && !domain.views.contains(v))
      for (Value operand : op->getOperands())
        visit(visit, operand, stage);
  };
  auto root = [&](Value v) {
    seen.clear();
    visit(visit, v, domain.stage.lookup(v));
  };
  for (auto &[op, kind] : reductions)
    root(op->getOperand(0));
  for (Value out : cluster.getBody().front().getTerminator()->getOperands())
    for (auto &store : domain.stores.find(out)->second)
      root(store.value);
  return stages;
}

int64_t Schedule::steps() const {
  if (walksUnits())
    return ceilDiv(units(), groups) * unitSteps();
  if (stagedRows)
    return ceilDiv(ceilDiv(domain.rows, stagedRows), groups) * shareSteps();
  return ceilDiv(rowLimit(), rowStride() * rowsAtOnce);
}

bool Schedule::evenSteps() const {
  if (byUnit())
    return walksUnits();
  return stagedRows ? domain.rows % stagedRows == 0 : rowsAtOnce == 1 && domain.rows % teams == 0;
}

int64_t Schedule::partialOffset(Operation *reduction) const {
  int64_t offset = 0;
  for (auto &[op, kind] : reductions) {
    if (op == reduction)
      break;
    if (isPartial(kind))
      offset += padded(kind == ReductionKind::Column ? groups * inner : grid());
  }
  return offset;
}

int64_t Schedule::partialValues() const {
  return partialOffset(nullptr);
}

int64_t alignmentOf(const View &view, int inner, int64_t most) {
  int64_t alignment = most;
  auto limit = [&](int64_t value) {
    while (value % alignment)
      alignment /= 2;
  };
  limit(view.offset);
  for (auto &[leaf, stride] : view.strides)
    if (leaf != inner)
      limit(stride);
  return alignment;
}

FailureOr<Schedule> scheduleCluster(ClusterOp cluster, const Target &target, std::string *why) {
  auto domain = ClusterDomain::analyze(cluster, why);
  if (failed(domain))
    return failure();
  return Scheduler(cluster, target, std::move(*domain)).run();
}

} // namespace msamp::codegen::cuda
