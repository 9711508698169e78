// Recognition helpers of the raise phase.
#include "passes/raise/Match.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace msamp::raise {

DenseElementsAttr constantOf(Value v) {
  auto constant = v.getDefiningOp<arith::ConstantOp>();
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
}

std::optional<double> splatOf(Value v) {
  while (Operation *op = v.getDefiningOp()) {
    if (!isa<BroadcastOp, ReshapeOp, TransposeOp>(op))
      break;
    v = op->getOperand(0);
  }
  DenseElementsAttr dense = constantOf(v);
  if (!dense || !dense.isSplat())
    return std::nullopt;
  if (isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<APFloat>().convertToDouble();
  if (isa<IntegerType>(dense.getElementType()))
    return double(dense.getSplatValue<APInt>().getSExtValue());
  return std::nullopt;
}

namespace {
SmallVector<int64_t> withoutUnits(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> kept;
  llvm::copy_if(shape, std::back_inserter(kept), [](int64_t size) { return size != 1; });
  return kept;
}
} // namespace

Value skipUnits(Value v) {
  while (auto reshape = v.getDefiningOp<ReshapeOp>()) {
    if (withoutUnits(tensorTypeOf(reshape.getInput()).getShape()) != withoutUnits(reshape.getType().getShape()))
      break;
    v = reshape.getInput();
  }
  return v;
}

std::optional<std::pair<Value, double>> scaled(Value v) {
  if (auto mul = binary<arith::MulFOp>(v)) {
    if (auto c = splatOf(mul->second))
      return std::pair(mul->first, *c);
    if (auto c = splatOf(mul->first))
      return std::pair(mul->second, *c);
  }
  if (auto div = binary<arith::DivFOp>(v))
    if (auto c = splatOf(div->second); c && *c != 0.0)
      return std::pair(div->first, 1.0 / *c);
  if (auto neg = v.getDefiningOp<arith::NegFOp>())
    return std::pair(neg.getOperand(), -1.0);
  return std::nullopt;
}

std::optional<std::pair<Value, double>> shifted(Value v) {
  if (auto add = binary<arith::AddFOp>(v)) {
    if (auto c = splatOf(add->second))
      return std::pair(add->first, *c);
    if (auto c = splatOf(add->first))
      return std::pair(add->second, *c);
  }
  if (auto sub = binary<arith::SubFOp>(v))
    if (auto c = splatOf(sub->second))
      return std::pair(sub->first, -*c);
  return std::nullopt;
}

Value vectorOfLastDim(Value v) {
  auto broadcast = v.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return tensorTypeOf(v).getRank() == 1 ? v : Value();
  Value source = broadcast.getInput();
  if (tensorTypeOf(source).getRank() != 1)
    source = skipUnits(source);
  auto type = tensorTypeOf(source);
  int64_t last = broadcast.getType().getRank() - 1;
  if (type.getRank() != 1 || type.getDimSize(0) != broadcast.getType().getDimSize(last))
    return {};
  if (broadcast.getDims().empty() || broadcast.getDims().back() != last)
    return {};
  return source;
}

Value repeatedAlongLastDim(Value v) {
  auto broadcast = v.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  auto type = broadcast.getType();
  SmallVector<int64_t> leading = llvm::to_vector(type.getShape().drop_back());
  auto in = tensorTypeOf(broadcast.getInput());
  // All leading dimensions come from the operand (those of size 1 may be missing), the last one does not.
  for (int64_t d = 0; d + 1 < type.getRank(); ++d)
    if (leading[d] != 1 && !llvm::is_contained(broadcast.getDims(), d))
      return {};
  if (in.getNumElements() * type.getShape().back() != type.getNumElements())
    return {};
  return skipUnits(broadcast.getInput());
}

std::optional<SmallVector<DimGroup>> groupDims(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  SmallVector<DimGroup> groups;
  if (llvm::is_contained(a, 0) || llvm::is_contained(b, 0))
    return std::nullopt;
  int64_t i = 0, j = 0, na = a.size(), nb = b.size();
  while (i < na && j < nb) {
    DimGroup group{i, i, j, j};
    int64_t pa = a[i++], pb = b[j++];
    while (pa != pb) {
      if (pa < pb) {
        if (i == na)
          return std::nullopt;
        pa *= a[i++];
      } else {
        if (j == nb)
          return std::nullopt;
        pb *= b[j++];
      }
    }
    group.aEnd = i;
    group.bEnd = j;
    groups.push_back(group);
  }
  // What is left are dimensions of size 1.
  for (; i < na; ++i)
    if (a[i] != 1)
      return std::nullopt;
  for (; j < nb; ++j)
    if (b[j] != 1)
      return std::nullopt;
  if (!groups.empty()) {
    groups.back().aEnd = na;
    groups.back().bEnd = nb;
  } else if (na || nb) {
    groups.push_back({0, na, 0, nb});
  }
  return groups;
}

SmallVector<int64_t> inverse(ArrayRef<int64_t> perm) {
  SmallVector<int64_t> result(perm.size());
  for (auto [i, p] : llvm::enumerate(perm))
    result[p] = i;
  return result;
}

bool dependsOnTrained(Value root) {
  SmallVector<Value> work{root};
  llvm::DenseSet<Operation *> seen;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (auto get = dyn_cast<GetOp>(op)) {
      auto param = SymbolTable::lookupNearestSymbolFrom<ParameterOp>(op, get.getParamAttr());
      if (param && param.getTrained())
        return true;
    }
    llvm::append_range(work, op->getOperands());
  }
  return false;
}

} // namespace msamp::raise
