// Gathers ops into clusters, greedily in program order. ClusterDomain says what one loop nest can compute; a search
// over the graph of clusters keeps it free of cycles.
#include "passes/fuse/ClusterDomain.h"
#include "passes/fuse/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <queue>

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_FORMCLUSTERS
#include "passes/fuse/Passes.h.inc"
namespace {

class Clustering {
public:
  Clustering(func::FuncOp func, unsigned maxOps) : func(func), maxOps(maxOps) {}

  LogicalResult run() {
    int position = 0;
    for (Operation &op : func.front())
      positions[&op] = position++;
    SmallVector<Operation *> turned;
    for (Operation &op : func.front()) {
      if (isStoredTranspose(&op)) {
        addNode(&op);
        turned.push_back(&op);
      } else if (isCore(&op)) {
        if (failed(place(&op)))
          return failure();
      } else if (!isFree(&op)) {
        addNode(&op);
      }
    }
    // Transposed copies last, so that they join the kernels that there are and do not shape them.
    for (Operation *op : turned)
      placeTransposed(op);
    return emit();
  }

private:
  struct Cluster {
    SmallVector<Operation *> core; // in program order
    int node = -1;
    bool alive = true;
  };

  // `ids` are the nodes merged into this one, itself included; `before` all that it depends on; `direct` its
  // predecessors.
  struct Node {
    llvm::BitVector ids, before;
    llvm::SmallSetVector<int, 8> direct;
    int first = 0, mergedInto = -1, last = 0;
  };

  // Core ops belong to one cluster. Free ops are cloned by the clusters that use them; they are core themselves only
  // where something that is no cluster needs the values in memory.
  bool isCore(Operation *op) {
    auto it = coreCache.find(op);
    if (it != coreCache.end())
      return it->second;
    bool core = isFusible(op);
    if (core && isa<ConcatOp>(op))
      // Parts that libraries write go straight into the concat's memory; only computed parts make it a kernel's output.
      core = llvm::all_of(op->getOperandTypes(), [&](Type t) { return t == op->getOperandTypes().front(); }) &&
             llvm::all_of(op->getOperands(), [&](Value v) {
               return v.getDefiningOp() && !isFree(v.getDefiningOp()) && isCore(v.getDefiningOp());
             });
    if (core && isFree(op)) {
      core = false;
      if (!isView(op))
        for (Operation *user : op->getUsers())
          core |= !joinsCluster(user) || (isView(user) && reachesMemory(user));
      // Large constants and single values that a kernel would only copy stay where they are.
      if (isa<arith::ConstantOp>(op))
        core = false;
    }
    return coreCache[op] = core;
  }

  // Whether a chain of views ends in an op that is no cluster.
  bool reachesMemory(Operation *view) {
    return llvm::any_of(view->getUsers(),
                        [&](Operation *user) { return !joinsCluster(user) || (isView(user) && reachesMemory(user)); });
  }

  // A concat whose parts are not all computed is left in memory, though it could be fused.
  bool joinsCluster(Operation *op) { return isFusible(op) && (!isa<ConcatOp>(op) || isCore(op)); }

  // The core ops with the free ops before them, in program order.
  SmallVector<Operation *> closure(ArrayRef<Operation *> core) {
    llvm::SmallPtrSet<Operation *, 32> seen(core.begin(), core.end());
    SmallVector<Operation *> all(core), work(core);
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      for (Value v : op->getOperands()) {
        Operation *def = v.getDefiningOp();
        if (!def || !isFree(def) || seen.contains(def))
          continue;
        seen.insert(def);
        all.push_back(def);
        work.push_back(def);
      }
    }
    llvm::sort(all, [&](Operation *a, Operation *b) { return positions[a] < positions[b]; });
    return all;
  }

  // Results of core ops that something outside reads, looking through the free ops that others would clone.
  SmallVector<Value> outputs(ArrayRef<Operation *> core, ArrayRef<Operation *> all) {
    llvm::SmallPtrSet<Operation *, 32> inside(core.begin(), core.end());
    SmallVector<Value> result;
    for (Operation *op : core)
      for (Value v : op->getResults())
        if (usedOutside(v, inside))
          result.push_back(v);
    return result;
  }

  bool usedOutside(Value v, const llvm::SmallPtrSetImpl<Operation *> &inside) {
    return llvm::any_of(v.getUsers(), [&](Operation *user) {
      if (inside.contains(user))
        return false;
      if (!isFree(user))
        return true;
      if (isCore(user))
        return true;
      if (isView(user) && reachesMemory(user))
        return true;
      return llvm::any_of(user->getResults(), [&](Value r) { return usedOutside(r, inside); });
    });
  }

  // The op outside of `core` that defines an operand, through free ops.
  void producers(ArrayRef<Operation *> core, llvm::SmallSetVector<Operation *, 16> &result,
                 llvm::SmallSetVector<Value, 16> *inputs = nullptr) {
    llvm::SmallPtrSet<Operation *, 32> inside(core.begin(), core.end());
    llvm::SmallPtrSet<Operation *, 32> seen;
    SmallVector<Operation *> work(core);
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      for (Value v : op->getOperands()) {
        Operation *def = v.getDefiningOp();
        if (!def) {
          if (inputs)
            inputs->insert(v);
          continue;
        }
        if (inside.contains(def))
          continue;
        // A free op that is core elsewhere is still cloned here.
        if (isFree(def)) {
          if (seen.insert(def).second)
            work.push_back(def);
          continue;
        }
        if (inputs)
          inputs->insert(v);
        result.insert(def);
      }
    }
  }

  // The nodes of the graph are clusters and the ops that are in none. An op's direct predecessors, free ops looked
  // through.
  void predecessors(Operation *op, llvm::SmallSetVector<int, 16> &result) {
    auto add = [&](Operation *def) {
      if (auto it = nodeOf.find(def); it != nodeOf.end())
        result.insert(it->second);
    };
    if (joinsCluster(op)) {
      llvm::SmallSetVector<Operation *, 16> defs;
      producers(op, defs);
      for (Operation *def : defs)
        add(def);
      return;
    }
    for (Value v : op->getOperands()) {
      Operation *def = v.getDefiningOp();
      while (def && isView(def) && !isCore(def))
        def = def->getOperand(0).getDefiningOp();
      if (def)
        add(def);
    }
  }

  // Whether merging these nodes, and `op` which is in none yet, lets a path leave them and come back.
  bool makesCycle(ArrayRef<int> group, Operation *op) {
    llvm::BitVector inside(nodes.empty() ? 0 : nodes.front().before.size());
    for (int n : group)
      inside |= nodes[n].ids;
    llvm::SmallSetVector<int, 16> before;
    if (op)
      predecessors(op, before);
    for (int n : group)
      before.insert(nodes[n].direct.begin(), nodes[n].direct.end());
    for (int p : before) {
      int n = find(p);
      if (!llvm::is_contained(group, n) && nodes[n].before.anyCommon(inside))
        return true;
    }
    return false;
  }

  int find(int n) const {
    while (nodes[n].mergedInto >= 0)
      n = nodes[n].mergedInto;
    return n;
  }

  // Makes a node of an op, or extends the node of its cluster by it.
  void addNode(Operation *op, int node = -1) {
    llvm::SmallSetVector<int, 16> before;
    predecessors(op, before);
    if (node < 0) {
      node = nodes.size();
      nodes.push_back({llvm::BitVector(positions.size()), llvm::BitVector(positions.size()), {}, positions[op], -1, 0});
      nodes.back().ids.set(node);
    }
    nodeOf[op] = node;
    nodes[node].last = positions[op];
    nodes[node].direct.insert(before.begin(), before.end());
    for (int p : before)
      if (int n = find(p); n != node)
        nodes[node].before |= nodes[n].before, nodes[node].before |= nodes[n].ids;
    propagate(node);
  }

  void mergeNodes(int into, int from) {
    nodes[into].before |= nodes[from].before;
    nodes[into].ids |= nodes[from].ids;
    nodes[into].direct.insert(nodes[from].direct.begin(), nodes[from].direct.end());
    nodes[into].last = std::max(nodes[into].last, nodes[from].last);
    nodes[into].first = std::min(nodes[into].first, nodes[from].first);
    nodes[from].mergedInto = into;
    nodes[into].before.reset(nodes[into].ids);
    propagate(into);
  }

  // What a node depends on, everything after it depends on too.
  void propagate(int changed) {
    nodes[changed].before.reset(nodes[changed].ids);
    for (int n = 0, e = nodes.size(); n < e; ++n)
      if (n != changed && nodes[n].mergedInto < 0 && nodes[n].last > nodes[changed].first &&
          nodes[n].before.anyCommon(nodes[changed].ids)) {
        nodes[n].before |= nodes[changed].before;
        nodes[n].before |= nodes[changed].ids;
      }
  }

  // A cluster of forward and backward ops would keep for the backward what it rebuilds; one of several chunks would keep
  // what each of them frees.
  static bool spansSides(ArrayRef<Operation *> core) {
    auto side = [](Operation *op) { return std::pair(op->hasAttr("msamp.backward"), op->getAttr(chunkAttr)); };
    return llvm::any_of(core, [&](Operation *op) { return side(op) != side(core.front()); });
  }

  // Which kernels may store results transposed: those that cut their domain in tiles, and those that hold rows and stage
  // enough of them for whole lines, which a GPU's shared memory and registers bound.
  static bool mayStoreTransposed(const ClusterDomain &domain, int64_t copies) {
    constexpr int64_t longest = 2048, most = 2;
    bool units = llvm::any_of(domain.reductions, [](auto &entry) { return entry.second == ReductionKind::OuterColumn; });
    return domain.stages == 1 ||
           (!units && domain.rows % 16 == 0 && domain.leafSize[domain.inner] <= longest && copies <= most);
  }

  // Beside reductions of rows, sums over outer loops are made by one block each: few long ones (a bias's gradient where rows are
  // blocks of 128) leave the others idle.
  static bool sumsFew(const ClusterDomain &domain) {
    return domain.stages > 1 && domain.reducedRows > 8 * (domain.rows / domain.reducedRows);
  }

  // A kernel that goes across what it reads stores nothing that lies as that does: another one does it along the rows.
  static bool storesAcross(const ClusterDomain &domain) {
    return domain.across && llvm::any_of(domain.stores, [&](auto &entry) {
             return llvm::any_of(entry.second, [&](const ClusterDomain::Store &store) {
               return domain.isFull(store.value) && store.view.stride(domain.inner) != 1;
             });
           });
  }

  bool fits(ArrayRef<Operation *> core, ArrayRef<int> group, Operation *op) {
    if (core.size() > maxOps || spansSides(core))
      return false;
    if (makesCycle(group, op))
      return false;
    SmallVector<Operation *> all = closure(core);
    SmallVector<Value> out = outputs(core, all);
    auto domain = ClusterDomain::analyze(all, out);
    if (failed(domain))
      return false;
    if (sumsFew(*domain) || storesAcross(*domain))
      return false;
    int64_t copies = llvm::count_if(core, isStoredTranspose);
    return copies == 0 || mayStoreTransposed(*domain, copies);
  }

  LogicalResult place(Operation *op) {
    SmallVector<Operation *> alone = {op};
    std::string why;
    SmallVector<Operation *> all = closure(alone);
    if (failed(ClusterDomain::analyze(all, outputs(alone, all), &why)))
      return op->emitOpError() << "no loop nest computes it: " << why;

    // Candidates: clusters of the producers first, then clusters that read the same large tensors.
    llvm::SmallSetVector<Operation *, 16> defs;
    llvm::SmallSetVector<Value, 16> inputs;
    producers(alone, defs, &inputs);
    llvm::SmallSetVector<int, 8> candidates;
    for (Operation *def : defs)
      if (auto it = clusterOf.find(def); it != clusterOf.end())
        candidates.insert(it->second);
    for (Value v : inputs) {
      if (cast<RankedTensorType>(v.getType()).getNumElements() < 1024)
        continue;
      for (int reader : llvm::reverse(readers[v]))
        if (clusters[reader].alive)
          candidates.insert(reader);
    }
    // Single values of what is known from the start (scales of weights) share kernels, however many there are.
    bool isEarly = cast<RankedTensorType>(op->getResult(0).getType()).getNumElements() == 1 &&
                   llvm::all_of(defs, [](Operation *def) { return isEarlyRead(def); });
    if (isEarly && early >= 0 && clusters[early].core.size() < maxEarly)
      candidates.insert(early);
    int home = -1;
    for (int candidate : candidates) {
      SmallVector<Operation *> merged(clusters[candidate].core);
      if (home < 0)
        merged.push_back(op);
      else
        llvm::append_range(merged, clusters[home].core);
      llvm::sort(merged, [&](Operation *a, Operation *b) { return positions[a] < positions[b]; });
      SmallVector<int> group = {find(clusters[candidate].node)};
      if (home >= 0)
        group.push_back(find(clusters[home].node));
      if (!fits(merged, group, home < 0 ? op : nullptr))
        continue;
      if (home < 0) {
        home = candidate;
        clusterOf[op] = home;
        addNode(op, group[0]);
      } else {
        clusters[candidate].alive = false;
        if (early == candidate) // a part of something else now
          early = -1;
        mergeNodes(group[1], group[0]);
        for (Operation *member : clusters[candidate].core)
          clusterOf[member] = home;
        for (auto &[v, list] : readers)
          for (int &reader : list)
            if (reader == candidate)
              reader = home;
      }
      clusters[home].core = merged;
    }
    if (home < 0) {
      home = clusters.size();
      addNode(op);
      clusters.push_back({{op}, nodeOf[op], true});
      clusterOf[op] = home;
      if (isEarly)
        early = home;
    }
    for (Value v : inputs)
      if (auto &list = readers[v]; !llvm::is_contained(list, home))
        list.push_back(home);
    return success();
  }

  // Reads of single values that an earlier step has left.
  static bool isEarlyRead(Operation *op) { return isa<GetAmaxOp, GetScaleOp>(op); }

  void placeTransposed(Operation *op) {
    auto source = op->getOperand(0).getDefiningOp() ? clusterOf.find(op->getOperand(0).getDefiningOp()) : clusterOf.end();
    if (source != clusterOf.end()) {
      Cluster &cluster = clusters[source->second];
      SmallVector<Operation *> merged(cluster.core);
      merged.push_back(op);
      llvm::sort(merged, [&](Operation *a, Operation *b) { return positions[a] < positions[b]; });
      int into = find(cluster.node), from = find(nodeOf[op]);
      if (fits(merged, {into, from}, nullptr)) {
        cluster.core = merged;
        clusterOf[op] = source->second;
        return mergeNodes(into, from);
      }
    }
    clusterOf[op] = clusters.size();
    clusters.push_back({{op}, nodeOf[op], true});
  }

  // Writes the function anew: clusters and other ops in an order that respects uses, by first position.
  LogicalResult emit() {
    Block &block = func.front();
    struct Item {
      SmallVector<Operation *> core; // a cluster, or
      Operation *op = nullptr;       // an op that is none
      int key = 0, waiting = 0;
      SmallVector<int> users = {};
    };
    SmallVector<Item> nodes;
    DenseMap<Operation *, int> nodeOf;
    DenseMap<int, int> nodeOfCluster;
    for (Operation &op : block) {
      if (auto it = clusterOf.find(&op); it != clusterOf.end()) {
        auto [slot, isNew] = nodeOfCluster.try_emplace(it->second, nodes.size());
        if (isNew)
          nodes.push_back({clusters[it->second].core, nullptr, positions[&op], 0, {}});
        nodeOf[&op] = slot->second;
        continue;
      }
      nodeOf[&op] = nodes.size();
      nodes.push_back({{}, &op, isEarlyRead(&op) ? -1 : positions[&op], 0, {}});
    }
    int previousEffect = -1;
    for (int n = 0, e = nodes.size(); n < e; ++n) {
      llvm::SmallSetVector<int, 16> before;
      if (nodes[n].op) {
        for (Value v : nodes[n].op->getOperands())
          if (Operation *def = v.getDefiningOp())
            before.insert(nodeOf[def]);
        // Ops with effects and the return keep their order among themselves.
        if (!isMemoryEffectFree(nodes[n].op)) {
          if (previousEffect >= 0)
            before.insert(previousEffect);
          previousEffect = n;
        }
      } else {
        llvm::SmallSetVector<Operation *, 16> defs;
        producers(nodes[n].core, defs);
        for (Operation *def : defs)
          before.insert(nodeOf[def]);
        // Free ops of the closure are cloned, but their own sources that are symbols or arguments come as operands.
        for (Operation *op : closure(nodes[n].core))
          for (Value v : op->getOperands())
            if (Operation *def = v.getDefiningOp(); def && !isFree(def) && nodeOf[def] != n)
              before.insert(nodeOf[def]);
      }
      before.remove(n);
      nodes[n].waiting = before.size();
      for (int b : before)
        nodes[b].users.push_back(n);
    }
    using Entry = std::pair<int, int>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
    for (int n = 0, e = nodes.size(); n < e; ++n)
      if (nodes[n].waiting == 0)
        ready.push({nodes[n].key, n});
    OpBuilder b(func.getContext());
    Operation *terminator = block.getTerminator();
    SmallVector<Operation *> dead;
    unsigned count = 0;
    while (!ready.empty()) {
      int n = ready.top().second;
      ready.pop();
      ++count;
      if (nodes[n].op) {
        if (nodes[n].op != terminator)
          nodes[n].op->moveBefore(terminator);
      } else {
        b.setInsertionPoint(terminator);
        emitCluster(b, nodes[n].core);
        llvm::append_range(dead, nodes[n].core);
      }
      for (int user : nodes[n].users)
        if (--nodes[user].waiting == 0)
          ready.push({nodes[user].key, user});
    }
    if (count != nodes.size())
      return func.emitError("clusters depend on each other in a cycle");
    // The members go, and then what was cloned everywhere and has no use left.
    llvm::SmallPtrSet<Operation *, 32> members(dead.begin(), dead.end());
    for (Operation *op : dead)
      op->dropAllReferences();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (!members.contains(&op) && op.use_empty() && isMemoryEffectFree(&op) && !op.hasTrait<OpTrait::IsTerminator>())
        op.erase();
    for (Operation *op : dead) {
      if (!op->use_empty())
        return op->emitOpError("of a cluster is still used outside of it");
      op->erase();
    }
    return success();
  }

  void emitCluster(OpBuilder &b, ArrayRef<Operation *> core) {
    SmallVector<Operation *> all = closure(core);
    SmallVector<Value> out = outputs(core, all);
    llvm::SmallPtrSet<Operation *, 32> inside(all.begin(), all.end());
    llvm::SmallSetVector<Value, 16> inputs;
    for (Operation *op : all)
      for (Value v : op->getOperands())
        if (Operation *def = v.getDefiningOp(); !def || !inside.contains(def))
          inputs.insert(v);
    SmallVector<Location> locs;
    for (Operation *op : core)
      locs.push_back(op->getLoc());
    Location loc = b.getFusedLoc(locs);
    auto cluster = ClusterOp::create(b, loc, TypeRange(ValueRange(out)), inputs.getArrayRef());
    Block &body = cluster.getBody().emplaceBlock();
    IRMapping map;
    for (Value v : inputs)
      map.map(v, body.addArgument(v.getType(), loc));
    OpBuilder inner = OpBuilder::atBlockEnd(&body);
    for (Operation *op : all)
      inner.clone(*op, map)->removeAttr(chunkAttr); // so that all chunks have one kernel
    SmallVector<Value> yielded;
    for (Value v : out)
      yielded.push_back(map.lookup(v));
    YieldOp::create(inner, loc, yielded);
    // Later nodes read the results; members of this cluster are erased at the end.
    for (auto [v, r] : llvm::zip(out, cluster.getResults()))
      v.replaceUsesWithIf(r, [&](OpOperand &use) { return !llvm::is_contained(core, use.getOwner()); });
  }

  func::FuncOp func;
  unsigned maxOps;
  DenseMap<Operation *, int> positions, clusterOf, nodeOf;
  std::vector<Node> nodes;
  DenseMap<Operation *, bool> coreCache;
  llvm::MapVector<Value, SmallVector<int>> readers;
  std::vector<Cluster> clusters;
  static constexpr size_t maxEarly = 64; // arguments of a kernel
  int early = -1;
};

struct FormClusters : impl::FormClustersBase<FormClusters> {
  using Base::Base;
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isExternal() && failed(Clustering(func, maxOps).run()))
        return signalPassFailure();
  }
};

} // namespace
} // namespace msamp::fuse
