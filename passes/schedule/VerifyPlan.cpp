// Checks what the schedule phase promises: steps touch only live memory that something has written.
#include "passes/schedule/Passes.h"

#include "llvm/ADT/StringSet.h"

#include <map>

namespace msamp::schedule {
#define GEN_PASS_DEF_VERIFYPLAN
#include "passes/schedule/Passes.h.inc"

namespace {
using namespace mlir;

// Union of byte ranges.
class Ranges {
public:
  void add(int64_t begin, int64_t end) {
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second >= begin) {
      --it;
      begin = it->first;
    }
    while (it != ranges.end() && it->first <= end) {
      end = std::max(end, it->second);
      it = ranges.erase(it);
    }
    ranges[begin] = end;
  }
  bool covers(int64_t begin, int64_t end) const {
    auto it = ranges.upper_bound(begin);
    return it != ranges.begin() && std::prev(it)->second >= end;
  }

private:
  std::map<int64_t, int64_t> ranges;
};

struct VerifyPlan : impl::VerifyPlanBase<VerifyPlan> {
  void runOnOperation() override {
    if (!getOperation().getOps<func::FuncOp>().empty()) {
      getOperation().emitError() << "a function is left after schedule; every one must be a plan.program";
      return signalPassFailure();
    }
    for (auto program : getOperation().getOps<planir::ProgramOp>())
      if (failed(checkLayout(program)) || failed(checkSteps(program)))
        return signalPassFailure();
  }

  static LogicalResult checkLayout(planir::ProgramOp program) {
    SmallVector<planir::BufferOp> buffers(program.getBody().front().getOps<planir::BufferOp>());
    for (auto buffer : buffers) {
      if (!buffer.getOffset() || !buffer.getLifetime())
        return buffer.emitOpError() << "has no offset or no lifetime";
      int64_t end = static_cast<int64_t>(*buffer.getOffset()) + buffer.getSizeInBytes();
      if (end > static_cast<int64_t>(program.getArena()))
        return buffer.emitOpError() << "ends at byte " << end << " of an arena of " << program.getArena();
    }
    llvm::sort(buffers, [](planir::BufferOp a, planir::BufferOp b) { return *a.getOffset() < *b.getOffset(); });
    SmallVector<planir::BufferOp> open; // that reach beyond the current offset
    for (auto buffer : buffers) {
      llvm::erase_if(open, [&](planir::BufferOp other) {
        return static_cast<int64_t>(*other.getOffset()) + other.getSizeInBytes() <=
               static_cast<int64_t>(*buffer.getOffset());
      });
      for (auto other : open)
        if ((*other.getLifetime())[0] <= (*buffer.getLifetime())[1] &&
            (*buffer.getLifetime())[0] <= (*other.getLifetime())[1])
          return buffer.emitOpError() << "shares bytes with buffer at " << *other.getOffset() << " while both live";
      open.push_back(buffer);
    }
    return success();
  }

  // Of weights, the micro-step writes running statistics alone.
  static bool isWritten(planir::ProgramOp program, planir::PlaceOp place) {
    if (place.getKind() == planir::PlaceKind::Weight) {
      auto param = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(place, place.getNameAttr());
      return program.getSymName() == "micro_step" && param && param.isStatistic();
    }
    return place.getKind() == planir::PlaceKind::Output || place.getKind() == planir::PlaceKind::Grad;
  }

  static LogicalResult checkSteps(planir::ProgramOp program) {
    // What steps wrote that always run, and what any step wrote.
    llvm::DenseMap<Value, Ranges> always, any;
    llvm::StringSet<> moved; // running statistics that have their next value
    int64_t index = 0;
    for (auto step : program.getBody().front().getOps<planir::StepOpInterface>()) {
      bool first = step.getFirst();
      for (auto [i, memory] : llvm::enumerate(step->getOperands())) {
        auto [base, begin] = planir::baseOf(memory);
        int64_t end = begin + planir::extentInBytes(cast<MemRefType>(memory.getType()));
        auto buffer = base.getDefiningOp<planir::BufferOp>();
        auto place = base.getDefiningOp<planir::PlaceOp>();
        bool read = i < step.getInputs().size();
        if (buffer && ((*buffer.getLifetime())[0] > index || (*buffer.getLifetime())[1] < index))
          return step->emitError() << "step " << index << " touches a buffer that lives from step "
                                   << buffer.getLifetime().value()[0] << " to " << buffer.getLifetime().value()[1];
        if (place && !read && !isWritten(program, place))
          return step->emitError() << "step " << index << " writes to " << stringifyPlaceKind(place.getKind()) << " "
                                   << place.getNameAttr();
        bool weight = place && place.getKind() == planir::PlaceKind::Weight;
        if (weight && moved.contains(place.getName()))
          return step->emitError() << "step " << index << (read ? " reads " : " writes to ") << place.getNameAttr()
                                   << ", which has its next value already";
        if (weight && !read)
          moved.insert(place.getName());
        bool ownMemory = buffer || (place && place.getKind() == planir::PlaceKind::Output);
        if (read && ownMemory && !(first ? any : always)[base].covers(begin, end))
          return step->emitError() << "step " << index << " reads bytes [" << begin << ", " << end << ") of "
                                   << (buffer ? "buffer " : "output ") << (buffer ? buffer.getName() : place.getName())
                                   << " that no step before it has written";
      }
      for (Value memory : step.getOutputs()) {
        auto [base, begin] = planir::baseOf(memory);
        int64_t end = begin + planir::extentInBytes(cast<MemRefType>(memory.getType()));
        any[base].add(begin, end);
        if (!first)
          always[base].add(begin, end);
      }
      ++index;
    }
    return success();
  }
};
} // namespace
} // namespace msamp::schedule
