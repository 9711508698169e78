// Inserts the steps that give delayed sites their first scale before anything is quantised with it.
#include "passes/schedule/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace msamp::schedule {
#define GEN_PASS_DEF_CALIBRATEFIRST
#include "passes/schedule/Passes.h.inc"

namespace {
using namespace mlir;
using planir::StepOpInterface;

// Byte range of a memory within its buffer or place.
struct Range {
  Value base;
  int64_t begin, end;
  explicit Range(Value memory) {
    std::tie(base, begin) = planir::baseOf(memory);
    end = begin + planir::extentInBytes(cast<MemRefType>(memory.getType()));
  }
  bool meets(const Range &other) const { return base == other.base && begin < other.end && other.begin < end; }
};

struct CalibrateFirst : impl::CalibrateFirstBase<CalibrateFirst> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<planir::ProgramOp>())
      if (failed(calibrate(program)))
        return signalPassFailure();
  }

  LogicalResult calibrate(planir::ProgramOp program) {
    SmallVector<StepOpInterface> steps(program.getBody().front().getOps<StepOpInterface>());
    llvm::DenseMap<Operation *, size_t> index;
    llvm::DenseMap<StringAttr, size_t> firstUse; // of a site's scale
    for (auto [i, step] : llvm::enumerate(steps)) {
      index[step] = i;
      for (Value input : step.getInputs())
        if (auto place = planir::baseOf(input).first.getDefiningOp<planir::PlaceOp>())
          if (place.getKind() == planir::PlaceKind::SiteScale)
            firstUse.try_emplace(place.getNameAttr(), i);
    }

    // Sites by the step that computes their amax. Of several records only the first calibrates: the scale must not
    // change between a quantisation and the product that divides by it.
    struct Group {
      SmallVector<Attribute> sites;
      SmallVector<Value> amaxes;
      size_t firstUse;
    };
    llvm::MapVector<size_t, Group> groups;
    llvm::DenseSet<Attribute> seen;
    for (auto record : program.getBody().front().getOps<planir::RecordAmaxOp>())
      for (auto [site, amax] : llvm::zip(record.getSites(), record.getInputs())) {
        auto name = cast<FlatSymbolRefAttr>(site).getAttr();
        auto use = firstUse.find(name);
        if (use == firstUse.end() || !seen.insert(site).second)
          continue;
        FailureOr<size_t> producer = lastWriter(steps, index[record], amax);
        if (failed(producer))
          return record.emitOpError() << "amax of site " << site << " is written by no step";
        Group &group = groups.try_emplace(*producer, Group{{}, {}, use->second}).first->second;
        group.sites.push_back(site);
        group.amaxes.push_back(amax);
        group.firstUse = std::min(group.firstUse, use->second);
      }

    OpBuilder builder(&getContext());
    for (auto &[producer, group] : groups) {
      StepOpInterface step = steps[producer];
      if (group.firstUse > producer) {
        builder.setInsertionPointAfter(step);
      } else {
        // The scale is used by the step itself or before it: it runs once more ahead of that use, for its amax alone.
        for (Value input : step.getInputs())
          if (auto writer = lastWriter(steps, producer, input); succeeded(writer) && *writer >= group.firstUse)
            return step->emitError() << "the amax of site " << group.sites.front() << " depends on step " << *writer
                                     << ", which comes after step " << group.firstUse << " that uses the site's scale";
        builder.setInsertionPoint(steps[group.firstUse]);
        cloneFirst(builder, step);
      }
      planir::CalibrateOp::create(builder, step->getLoc(), builder.getArrayAttr(group.sites), group.amaxes,
                                  ValueRange(), ValueRange(), /*first=*/true, 4 * group.amaxes.size(), 0);
    }
    return success();
  }

  static FailureOr<size_t> lastWriter(MutableArrayRef<StepOpInterface> steps, size_t before, Value memory) {
    Range wanted(memory);
    for (size_t i = before; i-- > 0;)
      for (Value output : steps[i].getOutputs())
        if (Range(output).meets(wanted))
          return i;
    return failure();
  }

  static void cloneFirst(OpBuilder &builder, Operation *step) {
    Operation *copy = builder.clone(*step);
    copy->setAttr("first", builder.getUnitAttr());
  }
};
} // namespace
} // namespace msamp::schedule
