// Ties a head to the table that holds the same values, as the model had it before its exporter stored it twice.
#include "ir/Msamp/Expr.h"
#include "mlir/IR/Remarks.h"
#include "passes/raise/ParameterValues.h"
#include "passes/raise/Passes.h"

using namespace mlir;

namespace msamp::raise {

#define GEN_PASS_DEF_TIETWINS
#include "passes/raise/Passes.h.inc"

namespace {

// Whether `v` is an output of the graph, perhaps after reshapes and a bias.
bool givesOutput(Value v) {
  SmallVector<Value> work{v};
  llvm::DenseSet<Operation *> seen;
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (isa<func::ReturnOp>(user))
        return true;
      if (isa<ReshapeOp, arith::AddFOp>(user) && seen.insert(user).second)
        work.push_back(user->getResult(0));
    }
  return false;
}

// The parameter behind a matmul operand, perhaps transposed.
GetOp parameterOf(Value v) {
  while (auto transpose = v.getDefiningOp<TransposeOp>())
    v = transpose.getInput();
  return v.getDefiningOp<GetOp>();
}

bool equalValues(ArrayRef<float> table, ArrayRef<float> head, int64_t rows, int64_t columns, bool transposed) {
  if (table.empty() || table.size() != head.size())
    return false;
  if (!transposed)
    return std::equal(table.begin(), table.end(), head.begin());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      if (table[r * columns + c] != head[c * rows + r])
        return false;
  return true;
}

struct TieTwins : impl::TieTwinsBase<TieTwins> {
  using TieTwinsBase::TieTwinsBase;
  explicit TieTwins(OpenParameterValues open) : open(std::move(open)) {}

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    SmallVector<ParameterOp> tables, heads;
    auto note = [&](SmallVectorImpl<ParameterOp> &list, GetOp get) {
      auto param = get ? symbols.lookup<ParameterOp>(get.getParam()) : ParameterOp();
      if (param && param.getTensorType().getRank() == 2 && !llvm::is_contained(list, param))
        list.push_back(param);
    };
    module.walk([&](Operation *op) {
      if (auto gather = dyn_cast<GatherOp>(op); gather && gather.getAxis() == 0)
        note(tables, gather.getTable().getDefiningOp<GetOp>());
      if (auto matmul = dyn_cast<MatMulOp>(op); matmul && givesOutput(matmul.getResult())) {
        note(heads, parameterOf(matmul.getB()));
        note(heads, parameterOf(matmul.getA()));
      }
    });
    std::shared_ptr<ParameterValues> values;
    for (ParameterOp head : heads) {
      if (llvm::is_contained(tables, head))
        continue;
      for (ParameterOp table : tables) {
        auto t = table.getTensorType().getShape(), h = head.getTensorType().getShape();
        bool straight = t == h, turned = t[0] == h[1] && t[1] == h[0];
        if (!straight && !turned)
          continue;
        bool tied = false, transposed = !straight;
        if (llvm::is_contained(assumeEqual, (table.getSymName() + "=" + head.getSymName()).str())) {
          tied = true;
        } else if (open && !table.getInit() && !head.getInit()) { // values that are drawn say nothing
          if (!values)
            values = open();
          std::vector<float> tableStorage, headStorage;
          ArrayRef<float> a, b;
          if (values)
            a = values->read(table.getSymName(), tableStorage);
          if (values)
            b = values->read(head.getSymName(), headStorage);
          tied = straight && equalValues(a, b, t[0], t[1], false);
          if (!tied && turned && equalValues(a, b, t[0], t[1], true))
            tied = transposed = true;
        }
        if (!tied)
          continue;
        tie(module, table, head, transposed);
        break;
      }
    }
  }

  void tie(ModuleOp module, ParameterOp table, ParameterOp head, bool transposed) {
    Builder builder(&getContext());
    NamedAttrList twin;
    twin.set("name", head.getSymNameAttr());
    if (transposed)
      twin.set("transposed", builder.getUnitAttr());
    SmallVector<Attribute> twins;
    if (auto known = table.getTwinsAttr())
      llvm::append_range(twins, known);
    twins.push_back(twin.getDictionary(&getContext()));
    table.setTwinsAttr(builder.getArrayAttr(twins));
    module.walk([&](GetOp get) {
      if (get.getParam() != head.getSymName())
        return;
      OpBuilder at(get);
      Expr value(at, get.getLoc(), GetOp::create(at, get.getLoc(), table.getTensorType(), table.getSymName()));
      if (transposed)
        value = value.transpose({1, 0});
      get.replaceAllUsesWith(value.value);
      get.erase();
    });
    remark::passed(head.getLoc(), remark::RemarkOpts::name("tied").category("raise"))
        << head.getSymName() << " holds the values of " << table.getSymName() << (transposed ? " transposed" : "")
        << ": both are one parameter";
    head.erase();
  }

  OpenParameterValues open;
};

} // namespace

std::unique_ptr<Pass> createTieTwins(OpenParameterValues open) {
  return std::make_unique<TieTwins>(std::move(open));
}

} // namespace msamp::raise
