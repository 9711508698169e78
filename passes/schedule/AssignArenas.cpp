// Lays a program's buffers out in its arena by lifetime.
#include "passes/schedule/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace msamp::schedule {
#define GEN_PASS_DEF_ASSIGNARENAS
#include "passes/schedule/Passes.h.inc"

namespace {
using namespace mlir;

constexpr int64_t alignment = 64;

struct Slot {
  planir::BufferOp op;
  int64_t size, first, last, offset = 0;
};

struct AssignArenas : impl::AssignArenasBase<AssignArenas> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<planir::ProgramOp>())
      layOut(program);
  }

  void layOut(planir::ProgramOp program) {
    llvm::MapVector<Operation *, Slot> slots;
    for (auto buffer : program.getBody().front().getOps<planir::BufferOp>())
      slots[buffer] = {buffer, static_cast<int64_t>(llvm::alignTo(buffer.getSizeInBytes(), alignment)), INT64_MAX, -1};
    int64_t steps = 0;
    for (auto step : program.getBody().front().getOps<planir::StepOpInterface>()) {
      for (Value operand : step->getOperands())
        if (auto buffer = planir::baseOf(operand).first.getDefiningOp<planir::BufferOp>()) {
          Slot &slot = slots[buffer];
          slot.first = std::min(slot.first, steps);
          slot.last = steps;
        }
      ++steps;
    }

    SmallVector<Slot *> order;
    for (auto &[op, slot] : slots) {
      if (slot.last >= 0)
        order.push_back(&slot);
      else if (op->use_empty())
        op->erase();
    }
    // Equal sizes stay in program order, which is the slots' order in memory.
    llvm::sort(order, [](Slot *a, Slot *b) { return a->size != b->size ? a->size > b->size : a < b; });
    SmallVector<Slot *> placed; // by offset
    int64_t arena = 0;
    for (Slot *slot : order) {
      slot->offset = bestFit(placed, *slot);
      auto at = llvm::upper_bound(placed, slot, [](Slot *a, Slot *b) { return a->offset < b->offset; });
      placed.insert(at, slot);
      arena = std::max(arena, slot->offset + slot->size);
    }

    Builder builder(&getContext());
    for (Slot *slot : order) {
      slot->op.setOffset(slot->offset);
      slot->op.setLifetime(ArrayRef<int64_t>{slot->first, slot->last});
      if (slot->first == slot->last)
        slot->op.setRole(planir::BufferRole::Workspace);
    }
    program.setArena(arena);
    program.setWorkspace(workspaceAtPeak(order, steps));
  }

  // Offset of the smallest gap that holds the slot among the placed ones that live when it does.
  static int64_t bestFit(ArrayRef<Slot *> placed, const Slot &slot) {
    int64_t end = 0, best = -1, bestSize = INT64_MAX;
    for (Slot *other : placed) {
      if (other->last < slot.first || slot.last < other->first)
        continue;
      int64_t gap = other->offset - end;
      if (gap >= slot.size && gap < bestSize) {
        best = end;
        bestSize = gap;
      }
      end = std::max(end, other->offset + other->size);
    }
    return best >= 0 ? best : end;
  }

  static int64_t workspaceAtPeak(ArrayRef<Slot *> slots, int64_t steps) {
    SmallVector<int64_t> all(steps + 1, 0), workspace(steps + 1, 0); // differences from step to step
    for (Slot *slot : slots) {
      all[slot->first] += slot->size;
      all[slot->last + 1] -= slot->size;
      if (slot->op.getRole() != planir::BufferRole::Workspace)
        continue;
      workspace[slot->first] += slot->size;
      workspace[slot->last + 1] -= slot->size;
    }
    int64_t live = 0, liveWorkspace = 0, peak = 0, result = 0;
    for (int64_t i = 0; i < steps; ++i) {
      live += all[i];
      liveWorkspace += workspace[i];
      if (live <= peak)
        continue;
      peak = live;
      result = liveWorkspace;
    }
    return result;
  }
};
} // namespace
} // namespace msamp::schedule
