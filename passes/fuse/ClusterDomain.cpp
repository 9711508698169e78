// Finds the loop nest of a cluster: unifies the dimensions of its tensors, merges those that stay together, picks the
// vectorised one and classifies the reductions.
#include "passes/fuse/ClusterDomain.h"
#include "passes/fuse/DimSpace.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;

namespace msamp::fuse {
namespace {

RankedTensorType tensorOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

bool isPointwise(Operation *op) {
  if (isa<QuantizeOp, ScaleOfOp>(op))
    return true;
  StringRef dialect = op->getName().getDialectNamespace();
  return (dialect == "arith" || dialect == "math") && op->hasTrait<OpTrait::Elementwise>() &&
         op->getNumResults() == 1 && isa<RankedTensorType>(op->getResult(0).getType());
}

bool isSplat(Operation *op) {
  auto constant = dyn_cast<arith::ConstantOp>(op);
  return constant && isa<SplatElementsAttr>(constant.getValue());
}

using Dims = SmallVector<SmallVector<int>>; // leaves of each dimension of a tensor

SmallVector<int> flat(const Dims &dims) {
  SmallVector<int> out;
  for (auto &d : dims)
    llvm::append_range(out, d);
  return out;
}

class Analysis {
public:
  Analysis(ArrayRef<Operation *> ops, ArrayRef<Value> outputs)
      : ops(ops), outputs(outputs), members(ops.begin(), ops.end()) {}

  bool run() {
    for (Operation *op : ops)
      if (!unifyOp(op))
        return fail(op, "dimensions have no common refinement");
    for (Operation *op : ops)
      for (Value v : op->getResults())
        if (!expandValue(v))
          return fail(op, "a dimension occurs twice");
    for (auto &[v, d] : dims)
      if (!domain.leaves.contains(v) && !expandValue(v))
        return fail(nullptr, "a dimension occurs twice");
    for (Operation *op : ops)
      if (!findViews(op))
        return fail(op, "a slice of a computed value");
    if (!findStores())
      return fail(nullptr, "a concat that is not stored");
    findIotas();
    collectLoopLeaves();
    merge();
    return pickInner() && classify() && checkOutputs();
  }

  ClusterDomain domain;
  std::string why;

private:
  bool fail(Operation *op, const Twine &reason) {
    why = (op ? op->getName().getStringRef() + ": " + reason : reason).str();
    return false;
  }

  Dims &dimsOf(Value v) {
    auto [it, isNew] = dims.try_emplace(v);
    if (isNew)
      for (int64_t size : tensorOf(v).getShape()) {
        it->second.emplace_back();
        if (size != 1)
          it->second.back().push_back(space.fresh(size));
      }
    return it->second;
  }

  bool unifyValues(Value a, Value b) {
    Dims x = dimsOf(a), y = dimsOf(b);
    for (auto [p, q] : llvm::zip_equal(x, y))
      if (!space.unify(p, q))
        return false;
    return true;
  }

  bool unifyOp(Operation *op) {
    if (isSplat(op)) {
      dimsOf(op->getResult(0));
      return true;
    }
    if (auto q = dyn_cast<QuantizeOp>(op)) {
      if (!unifyValues(q.getX(), q.getResult()))
        return false;
      Dims x = dimsOf(q.getX()), s = dimsOf(q.getScale());
      for (auto [p, r] : llvm::zip(s, x))
        if (!space.unify(p, r))
          return false;
      return true;
    }
    if (isPointwise(op)) {
      for (Value v : op->getOperands()) {
        if (tensorOf(v).getRank() != tensorOf(op->getResult(0)).getRank())
          return false;
        if (!unifyValues(v, op->getResult(0)))
          return false;
      }
      return true;
    }
    if (auto b = dyn_cast<BroadcastOp>(op)) {
      Dims in = dimsOf(b.getInput()), out = dimsOf(b.getResult());
      for (auto [i, d] : llvm::enumerate(b.getDims()))
        if (!space.unify(in[i], out[d]))
          return false;
      return true;
    }
    if (auto r = dyn_cast<ReduceOp>(op)) {
      Dims in = dimsOf(r.getInput()), out = dimsOf(r.getResult());
      size_t o = 0;
      for (size_t d = 0; d < in.size(); ++d)
        if (!llvm::is_contained(r.getDims(), static_cast<int64_t>(d)) && !space.unify(in[d], out[o++]))
          return false;
      return true;
    }
    if (isa<ReshapeOp>(op))
      return space.unify(flat(dimsOf(op->getOperand(0))), flat(dimsOf(op->getResult(0))));
    if (auto t = dyn_cast<TransposeOp>(op)) {
      Dims in = dimsOf(t.getInput()), out = dimsOf(t.getResult());
      for (auto [i, p] : llvm::enumerate(t.getPerm()))
        if (!space.unify(in[p], out[i]))
          return false;
      return true;
    }
    if (auto s = dyn_cast<SliceOp>(op)) {
      Dims in = dimsOf(s.getInput()), out = dimsOf(s.getResult());
      for (size_t d = 0; d < in.size(); ++d)
        if (tensorOf(s.getInput()).getDimSize(d) == tensorOf(s.getResult()).getDimSize(d) &&
            !space.unify(in[d], out[d]))
          return false;
      return true;
    }
    if (auto c = dyn_cast<ConcatOp>(op)) {
      Dims out = dimsOf(c.getResult());
      for (Value v : c.getInputs()) {
        Dims in = dimsOf(v);
        for (size_t d = 0; d < in.size(); ++d)
          if (d != c.getDim() && !space.unify(in[d], out[d]))
            return false;
        // Parts of one size are written side by side.
        if (v.getType() == c.getInputs().front().getType() && !unifyValues(v, c.getInputs().front()))
          return false;
      }
      return true;
    }
    if (isa<IotaOp>(op)) {
      dimsOf(op->getResult(0));
      return true;
    }
    return false;
  }

  // Writes the final leaves of a value; false if one occurs twice.
  bool expandValue(Value v) {
    auto it = dims.find(v);
    if (it == dims.end())
      return true;
    SmallVector<int> leaves;
    for (auto &d : it->second) {
      d = space.expand(d);
      llvm::append_range(leaves, d);
    }
    for (size_t i = 0; i < leaves.size(); ++i)
      for (size_t j = i + 1; j < leaves.size(); ++j)
        if (leaves[i] == leaves[j])
          return false;
    domain.leaves[v] = leaves;
    return true;
  }

  View rowMajor(Value v) {
    View view;
    SmallVector<int> list = domain.leaves[v];
    int64_t stride = 1;
    for (int leaf : llvm::reverse(list)) {
      view.strides.push_back({leaf, stride});
      stride *= space.size(leaf);
    }
    return view;
  }

  // The stride between neighbours along a dimension; nullopt where its leaves are not contiguous in the view.
  std::optional<int64_t> dimStride(const View &view, ArrayRef<int> list) {
    if (list.empty())
      return 0;
    int64_t unit = view.stride(list.back()), expected = unit;
    for (int leaf : llvm::reverse(list)) {
      if (view.stride(leaf) != expected)
        return std::nullopt;
      expected *= space.size(leaf);
    }
    return unit;
  }

  View *viewOf(Value v) {
    auto it = domain.views.find(v);
    if (it != domain.views.end())
      return &it->second;
    Operation *def = v.getDefiningOp();
    if (def && members.contains(def))
      return nullptr;
    domain.views[v] = rowMajor(v);
    domain.viewBase[v] = v;
    return &domain.views[v];
  }

  bool findViews(Operation *op) {
    if (isSplat(op))
      return true;
    if (isa<ReshapeOp, TransposeOp, BroadcastOp>(op)) {
      Value in = op->getOperand(0), out = op->getResult(0);
      if (View *view = viewOf(in)) {
        View copy = *view;
        Value base = domain.viewBase[in];
        domain.views[out] = copy;
        domain.viewBase[out] = base;
      }
      return true;
    }
    if (auto s = dyn_cast<SliceOp>(op)) {
      View *view = viewOf(s.getInput());
      if (!view)
        return false;
      View in = *view, out;
      Value base = domain.viewBase[s.getInput()];
      out.offset = in.offset;
      Dims &from = dims[s.getInput()], &to = dims[s.getResult()];
      for (size_t d = 0; d < from.size(); ++d) {
        std::optional<int64_t> unit = dimStride(in, from[d]);
        if (tensorOf(s.getInput()).getDimSize(d) == tensorOf(s.getResult()).getDimSize(d)) {
          for (int leaf : to[d])
            out.strides.push_back({leaf, in.stride(leaf)});
          continue;
        }
        if (!unit)
          return false;
        out.offset += s.getStarts()[d] * *unit;
        int64_t stride = *unit * s.getStrides()[d];
        for (int leaf : llvm::reverse(to[d])) {
          out.strides.push_back({leaf, stride});
          stride *= space.size(leaf);
        }
      }
      domain.views[s.getResult()] = out;
      domain.viewBase[s.getResult()] = base;
      return true;
    }
    for (Value v : op->getOperands())
      viewOf(v);
    return true;
  }

  bool findStores() {
    for (Operation *op : ops)
      if (auto c = dyn_cast<ConcatOp>(op))
        for (Operation *user : c->getUsers())
          if (members.contains(user))
            return false;
    for (Value out : outputs) {
      View whole = rowMajor(out);
      auto &list = domain.stores[out];
      auto c = out.getDefiningOp<ConcatOp>();
      if (!c || !members.contains(c)) {
        list.push_back({out, whole});
        continue;
      }
      int64_t dim = c.getDim(), position = 0, unit = 1;
      auto shape = tensorOf(out).getShape();
      for (size_t d = dim + 1; d < shape.size(); ++d)
        unit *= shape[d];
      for (Value part : c.getInputs()) {
        View view;
        view.offset = position * unit;
        position += tensorOf(part).getDimSize(dim);
        for (auto [d, leaves] : llvm::enumerate(dims[part])) {
          int64_t stride = 1;
          for (size_t e = d + 1; e < shape.size(); ++e)
            stride *= shape[e];
          for (int leaf : llvm::reverse(leaves)) {
            view.strides.push_back({leaf, stride});
            stride *= space.size(leaf);
          }
        }
        list.push_back({part, view});
      }
    }
    return true;
  }

  void findIotas() {
    for (Operation *op : ops)
      if (auto iota = dyn_cast<IotaOp>(op)) {
        auto &list = domain.iotas[op];
        int64_t multiplier = 1;
        for (int leaf : llvm::reverse(dims[iota.getResult()][iota.getDim()])) {
          list.push_back({leaf, multiplier});
          multiplier *= space.size(leaf);
        }
      }
  }

  // The leaves that loops run over: those of computed values, of what they read, and of what is stored.
  void collectLoopLeaves() {
    auto add = [&](Value v) {
      relevant.insert(v);
      for (int leaf : domain.leaves[v])
        loop.insert(leaf);
    };
    for (Operation *op : ops) {
      if (domain.views.contains(op->getNumResults() ? op->getResult(0) : Value()) || isSplat(op) ||
          isa<ConcatOp, IotaOp>(op))
        continue;
      for (Value v : op->getOperands()) {
        Operation *def = v.getDefiningOp();
        if (!(def && members.contains(def) && isSplat(def)))
          add(v);
      }
      for (Value v : op->getResults())
        add(v);
    }
    for (auto &[out, list] : domain.stores)
      for (auto &store : list)
        add(store.value);
  }

  // Merges neighbours (a, b) that stand together in every relevant tensor, view, reduction and iota.
  void merge() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (int a : SmallVector<int>(loop.begin(), loop.end())) {
        int b = follower(a);
        if (b < 0 || !canMerge(a, b))
          continue;
        int64_t size = leafSize(a) * leafSize(b);
        auto drop = [&](SmallVectorImpl<int> &list) { llvm::erase(list, a); };
        for (auto &[v, list] : domain.leaves)
          drop(list);
        for (auto &[v, view] : domain.views)
          llvm::erase_if(view.strides, [&](auto &s) { return s.first == a; });
        for (auto &[v, list] : domain.stores)
          for (auto &store : list)
            llvm::erase_if(store.view.strides, [&](auto &s) { return s.first == a; });
        for (auto &[op, list] : domain.iotas)
          llvm::erase_if(list, [&](auto &s) { return s.first == a; });
        for (auto &[op, list] : reduced)
          drop(list);
        merged[b] = size;
        loop.remove(a);
        changed = true;
        break;
      }
    }
  }

  int64_t leafSize(int leaf) const {
    auto it = merged.find(leaf);
    return it == merged.end() ? space.size(leaf) : it->second;
  }

  int follower(int a) {
    for (Value v : relevant) {
      auto &list = domain.leaves[v];
      auto it = llvm::find(list, a);
      if (it == list.end())
        continue;
      return std::next(it) == list.end() ? -1 : *std::next(it);
    }
    return -1;
  }

  bool canMerge(int a, int b) {
    for (Value v : relevant) {
      auto &list = domain.leaves[v];
      auto p = llvm::find(list, a), q = llvm::find(list, b);
      if ((p == list.end()) != (q == list.end()))
        return false;
      if (p != list.end() && std::next(p) != q)
        return false;
      auto view = domain.views.find(v);
      if (view != domain.views.end() && p != list.end() &&
          view->second.stride(a) != view->second.stride(b) * leafSize(b))
        return false;
    }
    for (auto &[v, list] : domain.stores)
      for (auto &store : list)
        if (store.view.stride(a) != store.view.stride(b) * leafSize(b))
          return false;
    if (reduced.empty())
      for (Operation *op : ops)
        if (auto r = dyn_cast<ReduceOp>(op)) {
          auto &list = reduced[op];
          for (int64_t d : r.getDims())
            llvm::append_range(list, dims[r.getInput()][d]);
        }
    for (auto &[op, list] : reduced)
      if (llvm::is_contained(list, a) != llvm::is_contained(list, b))
        return false;
    for (auto &[op, list] : domain.iotas) {
      auto has = [&](int leaf) { return llvm::any_of(list, [&](auto &s) { return s.first == leaf; }); };
      if (has(a) != has(b))
        return false;
    }
    return true;
  }

  SmallVector<int> reducedLeaves(ReduceOp r) {
    auto it = reduced.find(r);
    if (it != reduced.end())
      return it->second;
    SmallVector<int> list;
    for (int64_t d : r.getDims())
      for (int leaf : dims[r.getInput()][d])
        if (loop.contains(leaf))
          list.push_back(leaf);
    return list;
  }

  bool consumedInside(Value v) {
    return llvm::any_of(v.getUsers(), [&](Operation *user) { return members.contains(user); });
  }

  // A reduction of all there is, as the only row of its kernel: for small tensors whose result is used at once. Others
  // are shared out, and end before their result is used.
  bool isOneRow(ReduceOp r) {
    constexpr int64_t most = 8192;
    return tensorOf(r.getInput()).getNumElements() <= most && consumedInside(r.getResult());
  }

  bool pickInner() {
    for (Operation *op : ops)
      if (auto r = dyn_cast<ReduceOp>(op)) {
        SmallVector<int> list = reducedLeaves(r);
        if (list.size() != 1)
          continue;
        auto &in = domain.leaves[r.getInput()];
        if (in.back() != list[0] || (in.size() == 1 && !isOneRow(r)))
          continue;
        if (domain.inner >= 0 && domain.inner != list[0])
          return fail(op, "two inner dimensions are reduced");
        domain.inner = list[0];
      }
    if (domain.inner >= 0 || loop.empty())
      return true;
    // The last dimension of the largest tensor that is stored, else of the largest that is read.
    int64_t most = 0;
    auto consider = [&](Value v) {
      // The loops of a transpose walk along what it reads.
      while (Operation *def = v.getDefiningOp()) {
        if (!members.contains(def) || !isStoredTranspose(def))
          break;
        v = def->getOperand(0);
      }
      auto &list = domain.leaves[v];
      if (list.empty() || tensorOf(v).getNumElements() <= most)
        return;
      most = tensorOf(v).getNumElements();
      domain.inner = list.back();
    };
    for (Value out : outputs)
      for (auto &store : domain.stores[out])
        consider(store.value);
    int chosen = domain.inner;
    for (Value v : relevant)
      consider(v);
    // A stored tensor that spans the loops decides; otherwise (only reductions are stored) the largest operand does.
    if (chosen >= 0)
      for (Value out : outputs)
        for (auto &store : domain.stores[out])
          if (domain.leaves[store.value].size() == loop.size())
            domain.inner = chosen;
    return true;
  }

  // Where all rows are read across memory, the outer leaf along which it goes: rows that lie side by side shall follow each
  // other. -1 otherwise.
  int besideRows(ArrayRef<int> outer) {
    int beside = -1;
    for (Value v : relevant) {
      auto view = domain.views.find(v);
      if (view == domain.views.end() || !domain.isFull(v) || view->second.stride(domain.inner) == 0)
        continue;
      if (view->second.stride(domain.inner) == 1)
        return -1;
      for (int leaf : outer)
        if (view->second.stride(leaf) == 1 && beside < 0)
          beside = leaf;
    }
    return beside;
  }

  bool classify() {
    SmallVector<int> outer, tail;
    // Row-major order of the largest tensor, so that loops walk memory forward.
    Value widest;
    for (Value v : relevant)
      if (!widest || domain.leaves[v].size() > domain.leaves[widest].size())
        widest = v;
    llvm::SmallSetVector<int, 8> order;
    if (widest)
      order.insert(domain.leaves[widest].begin(), domain.leaves[widest].end());
    order.insert(loop.begin(), loop.end());
    for (int leaf : order)
      if (leaf != domain.inner)
        outer.push_back(leaf);
    if (int leaf = besideRows(outer); leaf >= 0) {
      domain.across = true;
      llvm::erase(outer, leaf);
      outer.push_back(leaf);
    }
    auto sameSet = [](ArrayRef<int> a, ArrayRef<int> b) {
      return a.size() == b.size() && llvm::all_of(a, [&](int x) { return llvm::is_contained(b, x); });
    };
    for (Operation *op : ops) {
      auto r = dyn_cast<ReduceOp>(op);
      if (!r)
        continue;
      SmallVector<int> list = reducedLeaves(r);
      auto &in = domain.leaves[r.getInput()];
      bool full = domain.isFull(r.getInput());
      bool spans = in.size() == loop.size();
      ReductionKind kind;
      if (list.empty())
        kind = ReductionKind::Row; // only sizes of 1: the value itself
      else if (list.size() == 1 && list[0] == domain.inner && (in.size() > 1 || isOneRow(r)))
        kind = ReductionKind::Row;
      else if (full && spans && list.size() == in.size())
        kind = ReductionKind::Scalar;
      else if (full && spans && sameSet(list, outer))
        kind = ReductionKind::Column;
      else if (full && spans && !llvm::is_contained(list, domain.inner)) {
        if (!tail.empty() && !sameSet(tail, list))
          return fail(op, "two sets of outer dimensions are reduced");
        if (!r.getResult().getType().getElementType().isF32())
          return fail(op, "not accumulated in f32");
        tail = list;
        kind = ReductionKind::OuterColumn;
      } else if (!full && sameSet(in, outer) && list.size() == in.size())
        kind = ReductionKind::RowScalar;
      else
        return fail(op, "a reduction that the loop nest does not hold");
      bool finished = kind == ReductionKind::Column || kind == ReductionKind::Scalar;
      if (!finished && tensorOf(r.getInput()).getElementType() != tensorOf(r.getResult()).getElementType())
        return fail(op, "rounded before the sum is complete");
      if (kind != ReductionKind::Row && consumedInside(r.getResult()))
        return fail(op, "its result is known only afterwards");
      domain.reductions[op] = kind;
    }
    llvm::erase_if(outer, [&](int leaf) { return llvm::is_contained(tail, leaf); });
    domain.outer = outer;
    llvm::append_range(domain.outer, tail);
    domain.leafSize.clear();
    for (int leaf : loop) {
      if (static_cast<size_t>(leaf) >= domain.leafSize.size())
        domain.leafSize.resize(leaf + 1, 1);
      domain.leafSize[leaf] = leafSize(leaf);
    }
    for (int leaf : domain.outer)
      domain.rows *= leafSize(leaf);
    for (int leaf : tail)
      domain.reducedRows *= leafSize(leaf);

    for (Operation *op : ops) {
      int stage = 0;
      for (Value v : op->getOperands())
        stage = std::max(stage, domain.stage.lookup(v));
      auto it = domain.reductions.find(op);
      if (it != domain.reductions.end() && it->second == ReductionKind::Row)
        ++stage;
      for (Value v : op->getResults())
        domain.stage[v] = stage;
      domain.stages = std::max(domain.stages, stage + 1);
    }
    return true;
  }

  bool checkOutputs() {
    for (Value out : outputs)
      for (auto &store : domain.stores[out]) {
        if (Operation *def = store.value.getDefiningOp();
            def && domain.reductions.contains(def) && domain.reductions[def] != ReductionKind::Row)
          continue;
        size_t expected = domain.isFull(store.value) ? loop.size() : domain.outer.size();
        if (domain.leaves[store.value].size() != expected)
          return fail(nullptr, "an output smaller than the loops");
      }
    return true;
  }

  ArrayRef<Operation *> ops;
  ArrayRef<Value> outputs;
  llvm::SmallPtrSet<Operation *, 16> members;
  DimSpace space;
  DenseMap<Value, Dims> dims;
  llvm::SetVector<Value> relevant;
  llvm::SmallSetVector<int, 8> loop;
  DenseMap<int, int64_t> merged;
  DenseMap<Operation *, SmallVector<int>> reduced;
};

} // namespace

bool isStoredTranspose(Operation *op) {
  return isa<TransposeOp>(op) && op->hasAttr(storedAttr);
}

bool isView(Operation *op) {
  return isa<ReshapeOp, TransposeOp, SliceOp>(op) && !op->hasAttr(storedAttr) && !op->hasAttr(inMemoryAttr);
}

bool isFree(Operation *op) {
  if (isView(op) || isa<BroadcastOp, IotaOp, math::AbsFOp>(op) || isSplat(op))
    return true;
  if (auto ext = dyn_cast<arith::ExtFOp>(op))
    return isa<RankedTensorType>(ext.getType());
  return isPointwise(op) && (op->hasAttr(repeatedAttr) || tensorOf(op->getResult(0)).getNumElements() == 1);
}

bool isFusible(Operation *op) {
  if (op->hasAttr(inMemoryAttr))
    return false;
  return isView(op) || isStoredTranspose(op) || isa<BroadcastOp, IotaOp, ReduceOp, ConcatOp>(op) || isSplat(op) || isPointwise(op);
}

int64_t View::stride(int leaf) const {
  for (auto &[l, s] : strides)
    if (l == leaf)
      return s;
  return 0;
}

bool ClusterDomain::isFull(Value v) const {
  auto it = leaves.find(v);
  return inner >= 0 && it != leaves.end() && llvm::is_contained(it->second, inner);
}

bool ClusterDomain::hasPartials() const {
  return llvm::any_of(reductions, [](auto &entry) {
    return entry.second == ReductionKind::Column || entry.second == ReductionKind::Scalar ||
           entry.second == ReductionKind::RowScalar;
  });
}

int64_t ClusterDomain::chunks() const {
  // Enough for balance between threads, few enough for small partial sums. Without outer loops the inner one is cut.
  constexpr int64_t partialChunks = 16, plainChunks = 64, segment = 4096;
  bool rowReduction = llvm::any_of(reductions, [](auto &entry) { return entry.second == ReductionKind::Row; });
  int64_t most = hasPartials() ? partialChunks : plainChunks;
  int64_t units = rows / reducedRows;
  if (outer.empty())
    units = inner < 0 || rowReduction ? 1 : (leafSize[inner] + segment - 1) / segment;
  return std::max<int64_t>(1, std::min(units, most));
}

FailureOr<ClusterDomain> ClusterDomain::analyze(ArrayRef<Operation *> ops, ArrayRef<Value> outputs, std::string *why) {
  Analysis analysis(ops, outputs);
  if (analysis.run())
    return std::move(analysis.domain);
  if (why)
    *why = analysis.why;
  return failure();
}

FailureOr<ClusterDomain> ClusterDomain::analyze(ClusterOp cluster, std::string *why) {
  Block &body = cluster.getBody().front();
  SmallVector<Operation *> ops;
  for (Operation &op : body.without_terminator())
    ops.push_back(&op);
  SmallVector<Value> outputs;
  for (Value v : body.getTerminator()->getOperands())
    if (!llvm::is_contained(outputs, v))
      outputs.push_back(v);
  return analyze(ops, outputs, why);
}

} // namespace msamp::fuse
