// Dimensions of several tensors that are found to be the same, or one to be the product of others.
#ifndef MSAMP_PASSES_FUSE_DIMSPACE_H
#define MSAMP_PASSES_FUSE_DIMSPACE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace msamp::fuse {

// Union-find over dimensions; a root may be split into an outer and an inner factor.
class DimSpace {
public:
  int fresh(int64_t size) {
    nodes.push_back({size, static_cast<int>(nodes.size()), {}});
    return nodes.size() - 1;
  }
  int64_t size(int n) const { return nodes[n].size; }
  void expand(int n, llvm::SmallVectorImpl<int> &out) const {
    while (nodes[n].parent != n)
      n = nodes[n].parent;
    if (nodes[n].split.empty()) {
      out.push_back(n);
      return;
    }
    for (int part : nodes[n].split)
      expand(part, out);
  }
  llvm::SmallVector<int> expand(llvm::ArrayRef<int> list) const {
    llvm::SmallVector<int> out;
    for (int n : list)
      expand(n, out);
    return out;
  }
  // Makes both lists the same sequence of leaves; false if their sizes have no common refinement.
  bool unify(llvm::ArrayRef<int> a, llvm::ArrayRef<int> b) {
    llvm::SmallVector<int> x = expand(a), y = expand(b);
    size_t i = 0, j = 0;
    while (i < x.size() && j < y.size()) {
      int p = x[i], q = y[j];
      if (p == q) {
        ++i, ++j;
        continue;
      }
      if (size(p) == size(q)) {
        nodes[p].parent = q;
      } else if (size(p) > size(q)) {
        if (size(p) % size(q))
          return false;
        split(p, size(q));
      } else {
        if (size(q) % size(p))
          return false;
        split(q, size(p));
      }
      x = expand(x), y = expand(y);
      // What lies before i and j is equal in both and may have been split too.
      i = 0;
      while (i < x.size() && i < y.size() && x[i] == y[i])
        ++i;
      j = i;
    }
    return i == x.size() && j == y.size();
  }

private:
  void split(int n, int64_t outer) {
    int o = fresh(outer), i = fresh(nodes[n].size / outer);
    nodes[n].split = {o, i};
  }
  struct Node {
    int64_t size;
    int parent;
    llvm::SmallVector<int, 2> split;
  };
  llvm::SmallVector<Node> nodes;
};

} // namespace msamp::fuse

#endif
