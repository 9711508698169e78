// Cuts the head of a model and its gradients into chunks of tokens, so that the logits of all tokens never exist at once.
#include "passes/fuse/ClusterDomain.h"
#include "passes/fuse/Passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace msamp::fuse {
#define GEN_PASS_DEF_CHUNKLOSS
#include "passes/fuse/Passes.h.inc"
namespace {

RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

int64_t bytesOf(Value v) {
  auto type = typeOf(v);
  return type.getNumElements() * ((type.getElementTypeBitWidth() + 7) / 8);
}

// The rows of one product and all that holds values of its size.
class Head {
public:
  Head(ProductOpInterface product) : product(product) {
    auto type = typeOf(product.getResult());
    rows = type.getDimSize(0);
    elements = type.getNumElements();
  }

  // Finds what is to be cut; says why it cannot be otherwise.
  LogicalResult find(std::string &why) {
    Block &block = *product->getBlock();
    llvm::DenseSet<Value> values{product.getResult()};
    SmallVector<Operation *> order{product};
    wide.insert(product.getResult());
    for (Operation &op : block) {
      if (&op == product.getOperation() || llvm::none_of(op.getOperands(), [&](Value v) { return values.contains(v); }))
        continue;
      bool takesWide = llvm::any_of(op.getOperands(), [&](Value v) { return wide.contains(v); });
      Kind kind = kindOf(&op);
      if (kind == Kind::Other) {
        if (!takesWide)
          continue;
        why = (op.getName().getStringRef() + " takes all of its rows").str();
        return failure();
      }
      order.push_back(&op);
      // What products and sums over rows make of it is theirs; a value a row may lead back to the whole, and so may a scale.
      if (kind == Kind::Largest || kind == Kind::Scale)
        values.insert(op.getResult(0));
      if (kind == Kind::Rows && !isa<ProductOpInterface>(op)) {
        values.insert(op.getResult(0));
        if (hasSize(op.getResult(0)))
          wide.insert(op.getResult(0));
      }
    }
    // Of those reached: the ones that take the whole size, and the ones on a way back to it.
    llvm::SmallPtrSet<Operation *, 32> needed;
    for (Operation *op : llvm::reverse(order)) {
      bool leads = wide.contains(op->getResult(0)) ||
                   llvm::any_of(op->getUsers(), [&](Operation *user) { return leadsBack.contains(user); });
      bool takesWide = llvm::any_of(op->getOperands(), [&](Value v) { return wide.contains(v); });
      if (leads)
        leadsBack.insert(op);
      if (leads || takesWide)
        needed.insert(op);
    }
    for (Operation *op : order)
      if (needed.contains(op))
        region.push_back(op);
    if (region.size() < 2) {
      why = "nothing in the step takes it";
      return failure();
    }
    inside.insert(region.begin(), region.end());
    for (Operation *op : region) {
      Kind kind = op == product.getOperation() ? Kind::Rows : kindOf(op);
      if (kind != Kind::Largest && kind != Kind::Scale)
        continue;
      for (Operation *user : op->getUsers())
        if (!inside.contains(user) && !isa<RecordAmaxOp>(user)) {
          why = (user->getName().getStringRef() + " takes what is largest in all of its rows").str();
          return failure();
        }
    }
    return success();
  }

  int64_t columns() const { return elements / rows; }

  // Whether all of the head's size that comes from outside can be made wider, and what becomes of it in another shape is
  // a sum or a product.
  bool canPad() const {
    return llvm::all_of(region, [&](Operation *op) {
      if (isa<ProductOpInterface>(op))
        return true;
      bool takesWide = llvm::any_of(op->getOperands(), [&](Value v) { return wide.contains(v); });
      if (takesWide && !isa<ReduceOp>(op) && !wide.contains(op->getResult(0)))
        return false;
      return llvm::all_of(op->getOperands(), [&](Value v) { return wide.contains(v) || canWiden(v); });
    });
  }

  // Gives all that has the head's size `count` columns, so that GEMMs find their rows aligned. What stands in the new
  // ones is left out by each reduction, product and sum.
  void pad(int64_t count) {
    OpBuilder b(product);
    Location loc = product.getLoc();
    int64_t before = columns();
    llvm::DenseMap<std::pair<Value, int64_t>, Value> padded;
    auto padDim = [&](Value v, int64_t dim) {
      Value &known = padded[{v, dim}];
      if (known)
        return known;
      auto type = typeOf(v);
      SmallVector<int64_t> shape(type.getShape()), low(type.getRank(), 0), strides(type.getRank(), 1);
      shape[dim] = count;
      return known = PadOp::create(b, loc, type.clone(shape), v, low, strides, APFloat(0.0)).getResult();
    };
    product.getBMutable().assign(padDim(product.getB(), product.getTransposeB() ? 0 : 1));
    if (product.getBias())
      product.getBiasMutable().assign(padDim(product.getBias(), 0));
    auto index = RankedTensorType::get({rows, count}, b.getI64Type());
    Value column = IotaOp::create(b, loc, index, 1);
    Value limit = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(index, b.getI64IntegerAttr(before)));
    Value valid = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, column, limit);
    IRMapping map;
    for (Operation *op : region) {
      b.setInsertionPoint(op);
      if (!isa<ProductOpInterface>(op))
        for (OpOperand &use : op->getOpOperands())
          if (!wide.contains(use.get()))
            use.set(widen(b, use.get(), count, map));
      if (wide.contains(op->getResult(0)))
        op->getResult(0).setType(withColumns(op->getResult(0).getType(), count));
      if (op != product.getOperation() && isa<ReduceOp, ProductOpInterface>(op))
        leaveOut(b, op, valid, count, padDim);
    }
    elements = rows * count;
  }

  void cut(int64_t size) {
    Block &block = *product->getBlock();
    OpBuilder builder(region.back());
    builder.setInsertionPointAfter(region.back());
    int64_t number = 0;
    for (int64_t start = 0; start < rows; start += size, ++number)
      cutChunk(builder, start, std::min(size, rows - start), number);
    for (auto &[value, list] : parts) {
      if (list.size() == 1) {
        replaceOutside(value, list.front());
        continue;
      }
      auto concat = ConcatOp::create(builder, value.getLoc(), value.getType(), list, 0);
      concat->setAttr(inMemoryAttr, builder.getUnitAttr());
      replaceOutside(value, concat.getResult());
    }
    // A site keeps the largest of several records; without history it takes its scale from the first.
    for (auto &[value, list] : largest)
      for (Operation *user : llvm::make_early_inc_range(value.getUsers()))
        if (auto record = dyn_cast<RecordAmaxOp>(user)) {
          for (Value amax : list)
            RecordAmaxOp::create(builder, record.getLoc(), record.getSite(), amax);
          record.erase();
        }
    for (auto &[value, sum] : sums) {
      Value total = sum;
      if (total.getType() != value.getType()) {
        total = arith::TruncFOp::create(builder, value.getLoc(), value.getType(), total);
      } else if (Type narrow = storedAs(value)) {
        // A sum with a gradient from the other end of the step (a tied table's) need not live that long in FP32: it is
        // rounded now, by a kernel of its own.
        auto round = arith::TruncFOp::create(builder, value.getLoc(), narrow, total);
        mark(round, number);
        replaceRounded(builder, value, round.getResult());
        continue;
      }
      replaceOutside(value, total);
    }
    for (Operation *op : llvm::reverse(region))
      op->erase();
    sortTopologically(&block);
  }

  int64_t rows, elements;

private:
  enum class Kind {
    Rows,    // a row for each of the operands' rows
    Sum,     // over all rows
    Largest, // magnitude in all rows, for a scale of FP8 values
    Scale,   // from such a magnitude
    Other
  };

  bool hasSize(Value v) const {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    return type && type.getRank() == 2 && type.getDimSize(0) == rows && type.getNumElements() == elements;
  }
  bool hasRows(Value v) const { return typeOf(v).getRank() > 0 && typeOf(v).getDimSize(0) == rows; }

  // What an op's result is to the rows of its operands.
  Kind kindOf(Operation *op) const {
    if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
      return Kind::Other;
    if (auto matmul = dyn_cast<ProductOpInterface>(op)) {
      if (typeOf(matmul.getResult()).getRank() != 2 || matmul.getAddend())
        return Kind::Other;
      if (!matmul.getTransposeA() && wide.contains(matmul.getA()) && !wide.contains(matmul.getB()))
        return Kind::Rows;
      bool sums = matmul.getTransposeA() && !matmul.getTransposeB() && !matmul.getBias();
      return sums ? Kind::Sum : Kind::Other;
    }
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      if (!llvm::is_contained(reduce.getDims(), 0))
        return Kind::Rows;
      if (reduce.getKind() == ReduceKind::Max && typeOf(reduce.getResult()).getRank() == 0 &&
          reduce.getInput().getDefiningOp<math::AbsFOp>())
        return Kind::Largest;
      bool sums = reduce.getKind() == ReduceKind::Sum && typeOf(reduce.getResult()).getElementType().isF32();
      return sums ? Kind::Sum : Kind::Other;
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return broadcast.getDims().empty() || broadcast.getDims()[0] != 0 ? Kind::Other : Kind::Rows;
    if (auto scale = dyn_cast<ScaleOfOp>(op); scale && typeOf(scale.getScale()).getRank() == 0)
      return Kind::Scale;
    if (op->hasTrait<OpTrait::Elementwise>() || isa<QuantizeOp>(op))
      return hasRows(op->getResult(0)) ? Kind::Rows : Kind::Other;
    return Kind::Other;
  }

  Type withRows(Type type, int64_t count) const {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(tensor.getShape());
    shape[0] = count;
    return tensor.clone(shape);
  }

  //===--- Padding ---===//

  Type withColumns(Type type, int64_t count) const {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.clone({tensor.getDimSize(0), count});
  }

  // A value of the head's size from outside that is the same for all columns, or their index.
  bool canWiden(Value v) const {
    if (!hasSize(v))
      return true;
    Operation *op = v.getDefiningOp();
    if (!op)
      return false;
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return isa<SplatElementsAttr>(constant.getValue());
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return !llvm::is_contained(broadcast.getDims(), 1);
    return isa<IotaOp>(op) || (op->hasTrait<OpTrait::Elementwise>() &&
                               llvm::all_of(op->getOperands(), [&](Value operand) { return canWiden(operand); }));
  }

  Value widen(OpBuilder &b, Value v, int64_t count, IRMapping &map) const {
    if (!hasSize(v))
      return v;
    if (Value known = map.lookupOrNull(v))
      return known;
    Operation *op = v.getDefiningOp();
    Type type = withColumns(v.getType(), count);
    Value result;
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      auto splat = cast<SplatElementsAttr>(constant.getValue());
      result = arith::ConstantOp::create(b, v.getLoc(), splat.resizeSplat(cast<ShapedType>(type)));
    } else {
      SmallVector<Value> operands;
      for (Value operand : op->getOperands())
        operands.push_back(isa<BroadcastOp>(op) ? operand : widen(b, operand, count, map));
      Operation *copy = b.clone(*op);
      copy->setOperands(operands);
      copy->getResult(0).setType(type);
      result = copy->getResult(0);
    }
    map.map(v, result);
    return result;
  }

  // Puts what changes nothing into the new columns of a reduction's or product's operand; what has a value for each of
  // them loses those of the new ones again.
  template <typename PadDim>
  void leaveOut(OpBuilder &b, Operation *op, Value valid, int64_t count, PadDim padDim) {
    auto reduce = dyn_cast<ReduceOp>(op);
    Kind kind = kindOf(op); // which asks for operands that are replaced now
    for (OpOperand &use : op->getOpOperands()) {
      if (!wide.contains(use.get()) || (reduce && !llvm::is_contained(reduce.getDims(), 1)))
        continue;
      OpOperand *at = &use;
      // Before it is rounded; of magnitudes, before they are that.
      for (Operation *def = at->get().getDefiningOp();
           isa_and_nonnull<arith::TruncFOp, QuantizeOp>(def) || (kind == Kind::Largest && isa_and_nonnull<math::AbsFOp>(def));
           def = at->get().getDefiningOp()) {
        at = &def->getOpOperand(0);
        b.setInsertionPoint(def);
      }
      if (auto known = at->get().getDefiningOp<arith::SelectOp>(); known && known.getCondition() == valid)
        continue;
      auto type = typeOf(at->get());
      double neutral = !reduce || reduce.getKind() == ReduceKind::Sum || kind == Kind::Largest ? 0.0
                       : reduce.getKind() == ReduceKind::Max ? -std::numeric_limits<double>::infinity()
                                                             : std::numeric_limits<double>::infinity();
      auto attr = DenseElementsAttr::get(type, b.getFloatAttr(type.getElementType(), neutral));
      Value otherwise = arith::ConstantOp::create(b, op->getLoc(), attr);
      at->set(arith::SelectOp::create(b, op->getLoc(), valid, at->get(), otherwise));
      b.setInsertionPoint(op);
    }
    Value result = op->getResult(0);
    if (auto matmul = dyn_cast<ProductOpInterface>(op); matmul && kind == Kind::Rows) {
      matmul.getBMutable().assign(padDim(matmul.getB(), matmul.getTransposeB() ? 1 : 0));
      return;
    }
    if (kind != Kind::Sum)
      return;
    auto type = typeOf(result);
    SmallVector<int64_t> shape(type.getShape()), starts(type.getRank(), 0), strides(type.getRank(), 1);
    auto matmul = dyn_cast<ProductOpInterface>(op);
    shape[matmul && !isWider(matmul.getA(), count) ? 1 : 0] = count;
    result.setType(type.clone(shape));
    b.setInsertionPointAfter(op);
    auto slice = SliceOp::create(b, op->getLoc(), type, result, starts, strides);
    result.replaceAllUsesExcept(slice.getResult(), slice);
  }
  bool isWider(Value v, int64_t count) const { return typeOf(v).getDimSize(0) == rows && typeOf(v).getDimSize(1) == count; }

  //===--- Cutting ---===//

  void mark(Operation *op, int64_t number) const {
    Builder b(op->getContext());
    op->setAttr(chunkAttr, b.getI64IntegerAttr(number));
    // Statistics and gradient share a kernel.
    op->setAttr("msamp.backward", b.getUnitAttr());
  }

  // The chunk's rows of a value from outside: computed for the chunk where that is nothing (repetition, indices,
  // constants) or a value a row, else a part of its memory.
  Value part(OpBuilder &b, Value v, int64_t start, int64_t count, int64_t number, IRMapping &map, bool inMemory) {
    if (Value known = map.lookupOrNull(v))
      return known;
    if (!hasRows(v))
      return v;
    Operation *op = v.getDefiningOp();
    Value result;
    auto splat = op ? dyn_cast<arith::ConstantOp>(op) : arith::ConstantOp();
    if (splat && isa<SplatElementsAttr>(splat.getValue())) {
      auto value = cast<SplatElementsAttr>(splat.getValue());
      return arith::ConstantOp::create(b, v.getLoc(), value.resizeSplat(cast<ShapedType>(withRows(v.getType(), count))));
    }
    bool cheap = op && !inMemory && (hasSize(v) || typeOf(v).getRank() == 1) &&
                 (op->hasTrait<OpTrait::Elementwise>() || isa<BroadcastOp>(op) ||
                  (isa<IotaOp>(op) && cast<IotaOp>(op).getDim() != 0));
    if (cheap) {
      result = clone(b, op, start, count, number, map)->getResult(0);
    } else {
      auto type = typeOf(v);
      SmallVector<int64_t> starts(type.getRank(), 0), strides(type.getRank(), 1);
      starts[0] = start;
      auto slice = SliceOp::create(b, v.getLoc(), cast<RankedTensorType>(withRows(type, count)), v, starts, strides);
      slice->setAttr(inMemoryAttr, b.getUnitAttr());
      mark(slice, number);
      result = slice.getResult();
    }
    map.map(v, result);
    return result;
  }

  Operation *clone(OpBuilder &b, Operation *op, int64_t start, int64_t count, int64_t number, IRMapping &map) {
    SmallVector<Value> operands;
    auto broadcast = dyn_cast<BroadcastOp>(op);
    // Of a broadcast along the rows, the operand has none of its own even if its size says so.
    bool alongRows = broadcast && (broadcast.getDims().empty() || broadcast.getDims()[0] != 0);
    auto matmul = dyn_cast<ProductOpInterface>(op);
    for (OpOperand &use : op->getOpOperands()) {
      bool whole = matmul ? !hasPart(matmul, use) : alongRows;
      operands.push_back(whole ? map.lookupOrDefault(use.get())
                               : part(b, use.get(), start, count, number, map, matmul != nullptr));
    }
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    bool sums = op != product.getOperation() && inside.contains(op) && kindOf(op) == Kind::Sum;
    if (!sums && hasRows(op->getResult(0)))
      copy->getResult(0).setType(withRows(op->getResult(0).getType(), count));
    mark(copy, number);
    return copy;
  }

  // Whether a product in the region takes the rows of a chunk from an operand: its left one and that one's row scales, or both
  // that it sums over.
  bool hasPart(ProductOpInterface op, OpOperand &use) const {
    if (use.get() == op.getA())
      return true;
    if (op != product && kindOf(op) == Kind::Sum)
      return use.get() == op.getB();
    auto scaled = dyn_cast<ScaledMatMulOp>(op.getOperation());
    return scaled && use.get() == scaled.getScaleA() && typeOf(use.get()).getRank() == 1;
  }

  void cutChunk(OpBuilder &b, int64_t start, int64_t count, int64_t number) {
    IRMapping map;
    for (Operation *op : region) {
      Value whole = op->getResult(0);
      Operation *copy = clone(b, op, start, count, number, map);
      Value made = copy->getResult(0);
      Kind kind = op == product.getOperation() ? Kind::Rows : kindOf(op);
      if (kind == Kind::Largest || kind == Kind::Scale) {
        map.map(whole, made);
        if (kind == Kind::Largest)
          largest[whole].push_back(made);
        continue;
      }
      if (kind == Kind::Rows) {
        map.map(whole, made);
        if (usedOutside(whole))
          parts[whole].push_back(made);
        continue;
      }
      Value &sum = sums[whole];
      if (auto matmul = dyn_cast<ProductOpInterface>(copy)) {
        made.setType(typeOf(made).clone(b.getF32Type()));
        if (sum)
          matmul.getAddendMutable().assign(sum);
        sum = made;
      } else if (!sum) {
        sum = made;
      } else {
        auto add = arith::AddFOp::create(b, op->getLoc(), sum, made);
        mark(add, number);
        sum = add.getResult();
      }
    }
  }

  // The narrow type of a value of which all, or a part, is only added to another one and stored then.
  static Type storedAs(Value v) {
    auto user = [](Value value) { return value.hasOneUse() ? *value.user_begin() : nullptr; };
    Operation *next = user(v);
    if (auto slice = dyn_cast_or_null<SliceOp>(next))
      next = user(slice.getResult());
    auto add = dyn_cast_or_null<arith::AddFOp>(next);
    auto round = add ? dyn_cast_or_null<arith::TruncFOp>(user(add.getResult())) : arith::TruncFOp();
    return round ? Type(typeOf(v).clone(typeOf(round.getResult()).getElementType())) : Type();
  }

  // A part is one of what is in memory, so it is taken before the values are widened.
  static void replaceRounded(OpBuilder &b, Value value, Value narrow) {
    auto slice = dyn_cast<SliceOp>(*value.user_begin());
    if (slice) {
      auto type = cast<RankedTensorType>(typeOf(slice.getResult()).clone(typeOf(narrow).getElementType()));
      narrow = SliceOp::create(b, slice.getLoc(), type, narrow, slice.getStarts(), slice.getStrides());
      value = slice.getResult();
    }
    Value wide = arith::ExtFOp::create(b, value.getLoc(), value.getType(), narrow);
    value.replaceAllUsesWith(wide);
    if (slice)
      slice.erase();
  }

  bool usedOutside(Value v) const {
    return llvm::any_of(v.getUsers(), [&](Operation *user) { return !inside.contains(user); });
  }
  void replaceOutside(Value v, Value with) {
    v.replaceUsesWithIf(with, [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
  }

  ProductOpInterface product;
  SmallVector<Operation *> region; // in program order
  llvm::SmallPtrSet<Operation *, 32> inside, leadsBack;
  llvm::DenseSet<Value> wide; // the product, and what is computed from it in its size
  llvm::MapVector<Value, SmallVector<Value>> parts, largest;
  llvm::MapVector<Value, Value> sums;
};

struct ChunkLoss : impl::ChunkLossBase<ChunkLoss> {
  using Base::Base;

  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("micro_step");
    if (!step || bytes <= 0)
      return;
    for (ProductOpInterface product : findHeads(step)) {
      if (typeOf(product.getResult()).getRank() != 2 || product.getTransposeA() || product.getAddend() ||
          (bytesOf(product.getResult()) <= bytes && typeOf(product.getResult()).getDimSize(1) % align == 0))
        continue;
      Location loc = product.getLoc();
      std::string why;
      auto find = [&](Head &head) {
        if (succeeded(head.find(why)))
          return true;
        remark::missed(loc, remark::RemarkOpts::name("loss-chunk").category("fuse"))
            << "the logits of all tokens are in memory at once: " << why;
        return false;
      };
      Head whole(product);
      if (!find(whole))
        continue;
      if (int64_t aligned = llvm::alignTo(whole.columns(), align); aligned != whole.columns() && whole.canPad()) {
        remark::passed(loc, remark::RemarkOpts::name("pad-classes").category("fuse"))
            << std::to_string(whole.columns()) << " classes are computed as " << std::to_string(aligned);
        whole.pad(aligned);
      }
      Head head(product);
      if (!find(head))
        continue;
      int64_t size = chunkRows(head.rows, bytesOf(product.getResult()) / head.rows);
      remark::passed(loc, remark::RemarkOpts::name("loss-chunk").category("fuse"))
          << "logits and their gradients for " << std::to_string(size) << " of " << std::to_string(head.rows)
          << " tokens at a time";
      head.cut(size);
    }
  }

  // The products that the loss is computed from without another one between.
  static SmallVector<ProductOpInterface> findHeads(func::FuncOp step) {
    llvm::SetVector<Operation *> seen;
    SmallVector<ProductOpInterface> heads;
    Operation *exit = step.getBody().front().getTerminator();
    SmallVector<Value> worklist(exit->getOperands().take_front(1));
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (!op || !seen.insert(op))
        continue;
      if (auto product = dyn_cast<ProductOpInterface>(op))
        heads.push_back(product);
      else if (isFusible(op))
        llvm::append_range(worklist, op->getOperands());
    }
    return heads;
  }

  // As many rows as fit; a divisor of all of them that GEMMs like, where there is one not far below.
  int64_t chunkRows(int64_t rows, int64_t rowBytes) const {
    int64_t most = std::max<int64_t>(bytes / rowBytes, 1);
    for (int64_t count = (rows + most - 1) / most; count <= 2 * ((rows + most - 1) / most); ++count)
      if (rows % count == 0 && (rows / count) % 128 == 0)
        return rows / count;
    return most >= rows ? rows : most >= 128 ? most / 128 * 128 : most;
  }
};

} // namespace
} // namespace msamp::fuse
