// Cuts the head of a model and its gradients into chunks of tokens, so that the logits of all tokens never exist at once.
#include "passes/fuse/ClusterDomain.h"
#include "passes/fuse/Passes.h"

#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

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
  Head(MatMulOp product) : product(product) {
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
      if (&op == product || llvm::none_of(op.getOperands(), [&](Value v) { return values.contains(v); }))
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
      // What products and sums over rows make of it is theirs; a value a row may lead back to the whole.
      if (kind == Kind::Rows && !isa<MatMulOp>(op)) {
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
    return success();
  }

  void cut(int64_t size) {
    Block &block = *product->getBlock();
    OpBuilder builder(region.back());
    builder.setInsertionPointAfter(region.back());
    int64_t number = 0;
    for (int64_t start = 0; start < rows; start += size, ++number)
      cutChunk(builder, start, std::min(size, rows - start), number);
    for (auto &[value, list] : parts) {
      auto concat = ConcatOp::create(builder, value.getLoc(), value.getType(), list, 0);
      concat->setAttr(inMemoryAttr, builder.getUnitAttr());
      replaceOutside(value, concat.getResult());
    }
    for (auto &[value, sum] : sums) {
      Value total = sum;
      if (total.getType() != value.getType())
        total = arith::TruncFOp::create(builder, value.getLoc(), value.getType(), total);
      replaceOutside(value, total);
    }
    for (Operation *op : llvm::reverse(region))
      op->erase();
    sortTopologically(&block);
  }

  int64_t rows, elements;

private:
  enum class Kind { Rows, Sum, Other };

  bool hasSize(Value v) const {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    return type && type.getRank() == 2 && type.getDimSize(0) == rows && type.getNumElements() == elements;
  }
  bool hasRows(Value v) const { return typeOf(v).getRank() > 0 && typeOf(v).getDimSize(0) == rows; }

  // Whether an op's result has a row for each of the operands' rows, or is a sum over all rows.
  Kind kindOf(Operation *op) const {
    if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
      return Kind::Other;
    if (auto matmul = dyn_cast<MatMulOp>(op)) {
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
      bool sums = reduce.getKind() == ReduceKind::Sum && typeOf(reduce.getResult()).getElementType().isF32();
      return sums ? Kind::Sum : Kind::Other;
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return broadcast.getDims().empty() || broadcast.getDims()[0] != 0 ? Kind::Other : Kind::Rows;
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
    auto matmul = dyn_cast<MatMulOp>(op);
    for (OpOperand &use : op->getOpOperands()) {
      bool whole = alongRows || (matmul && kindOf(op) == Kind::Rows && use.get() != matmul.getA());
      operands.push_back(whole ? use.get() : part(b, use.get(), start, count, number, map, isa<MatMulOp>(op)));
    }
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    bool sums = inside.contains(op) && kindOf(op) == Kind::Sum;
    if (!sums && hasRows(op->getResult(0)))
      copy->getResult(0).setType(withRows(op->getResult(0).getType(), count));
    mark(copy, number);
    return copy;
  }

  void cutChunk(OpBuilder &b, int64_t start, int64_t count, int64_t number) {
    IRMapping map;
    for (Operation *op : region) {
      Value whole = op->getResult(0);
      // The product itself is the head: its rows are those of its left operand.
      Operation *copy = op == product ? cloneProduct(b, start, count, number, map)
                                      : clone(b, op, start, count, number, map);
      Value made = copy->getResult(0);
      if (op == product || kindOf(op) == Kind::Rows) {
        map.map(whole, made);
        if (usedOutside(whole))
          parts[whole].push_back(made);
        continue;
      }
      Value &sum = sums[whole];
      if (auto matmul = dyn_cast<MatMulOp>(copy)) {
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

  Operation *cloneProduct(OpBuilder &b, int64_t start, int64_t count, int64_t number, IRMapping &map) {
    Value a = part(b, product.getA(), start, count, number, map, true);
    Operation *copy = b.clone(*product.getOperation());
    copy->setOperand(0, a);
    copy->getResult(0).setType(withRows(product.getResult().getType(), count));
    mark(copy, number);
    return copy;
  }

  bool usedOutside(Value v) const {
    return llvm::any_of(v.getUsers(), [&](Operation *user) { return !inside.contains(user); });
  }
  void replaceOutside(Value v, Value with) {
    v.replaceUsesWithIf(with, [&](OpOperand &use) { return !inside.contains(use.getOwner()); });
  }

  MatMulOp product;
  SmallVector<Operation *> region; // in program order
  llvm::SmallPtrSet<Operation *, 32> inside, leadsBack;
  llvm::DenseSet<Value> wide; // the product, and what is computed from it in its size
  llvm::MapVector<Value, SmallVector<Value>> parts;
  llvm::MapVector<Value, Value> sums;
};

struct ChunkLoss : impl::ChunkLossBase<ChunkLoss> {
  using Base::Base;

  void runOnOperation() override {
    auto step = getOperation().lookupSymbol<func::FuncOp>("micro_step");
    if (!step || bytes <= 0)
      return;
    for (MatMulOp product : findHeads(step)) {
      if (typeOf(product.getResult()).getRank() != 2 || product.getTransposeA() || product.getAddend() ||
          bytesOf(product.getResult()) <= bytes)
        continue;
      Head head(product);
      Location loc = product.getLoc();
      std::string why;
      if (failed(head.find(why))) {
        remark::missed(loc, remark::RemarkOpts::name("loss-chunk").category("fuse"))
            << "the logits of all tokens are in memory at once: " << why;
        continue;
      }
      int64_t size = chunkRows(head.rows, bytesOf(product.getResult()) / head.rows);
      remark::passed(loc, remark::RemarkOpts::name("loss-chunk").category("fuse"))
          << "logits and their gradients for " << std::to_string(size) << " of " << std::to_string(head.rows)
          << " tokens at a time";
      head.cut(size);
    }
  }

  // The products that the loss is computed from without another one between.
  static SmallVector<MatMulOp> findHeads(func::FuncOp step) {
    llvm::SetVector<Operation *> seen;
    SmallVector<MatMulOp> heads;
    Operation *exit = step.getBody().front().getTerminator();
    SmallVector<Value> worklist(exit->getOperands().take_front(1));
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val().getDefiningOp();
      if (!op || !seen.insert(op))
        continue;
      if (auto product = dyn_cast<MatMulOp>(op))
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
    return most >= 128 ? most / 128 * 128 : most;
  }
};

} // namespace
} // namespace msamp::fuse
