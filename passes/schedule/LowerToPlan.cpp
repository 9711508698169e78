// Lowers fused functions to programs: memory of values, views, and the pass itself. The steps are in LowerSteps.cpp.
#include "passes/schedule/Lowering.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace msamp::schedule {
#define GEN_PASS_DEF_LOWERTOPLAN
#include "passes/schedule/Passes.h.inc"

using namespace mlir;
using planir::BufferRole;
using planir::PlaceKind;

namespace {
RankedTensorType typeOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

StringRef resultName(func::FuncOp func, unsigned index) {
  auto name = func.getResultAttrOfType<StringAttr>(index, "msamp.name");
  return name ? name.getValue() : StringRef();
}
} // namespace

void eraseDeadOps(func::FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
    if (op.use_empty() && !op.hasTrait<OpTrait::IsTerminator>() && (isMemoryEffectFree(&op) || isa<ClusterOp>(op)))
      op.erase();
}

//===--- Memory ----------------------------------------------------------------------------------------------===//

FunctionLowering::FunctionLowering(ModuleLowering &shared, func::FuncOp func, planir::ProgramOp program)
    : shared(shared), func(func), program(program), builder(OpBuilder::atBlockEnd(&program.getBody().front())) {}

Value FunctionLowering::place(Place kind, StringRef name, RankedTensorType type) {
  auto nameAttr = builder.getStringAttr(name);
  Value &known = places[{static_cast<int>(kind), nameAttr}];
  if (known)
    return known;
  OpBuilder declarations(builder);
  if (lastDeclaration)
    declarations.setInsertionPointAfter(lastDeclaration);
  else
    declarations.setInsertionPointToStart(&program.getBody().front());
  auto op = planir::PlaceOp::create(declarations, program.getLoc(),
                                    MemRefType::get(type.getShape(), type.getElementType()), kind, nameAttr);
  lastDeclaration = op;
  return known = op.getMemory();
}

Value FunctionLowering::buffer(Location loc, StringRef name, int64_t bytes, BufferRole role) {
  OpBuilder declarations(builder);
  if (lastDeclaration)
    declarations.setInsertionPointAfter(lastDeclaration);
  else
    declarations.setInsertionPointToStart(&program.getBody().front());
  auto op = planir::BufferOp::create(declarations, loc, MemRefType::get({bytes}, declarations.getI8Type()),
                                     declarations.getStringAttr(name), role, IntegerAttr(), DenseI64ArrayAttr());
  lastDeclaration = op;
  return op.getMemory();
}

TensorMemory FunctionLowering::temporary(Location loc, StringRef name, RankedTensorType type, BufferRole role) {
  TensorMemory memory = rowMajor(Value(), type);
  memory.base = buffer(loc, name, std::max<int64_t>(memory.sizeInBytes(), 1), role);
  return memory;
}

// Arguments, constants and symbols get their place when something first asks for it.
TensorMemory &FunctionLowering::memoryOf(Value value) {
  auto found = memories.find(value);
  if (found != memories.end())
    return found->second;
  Value base;
  RankedTensorType type = typeOf(value);
  if (auto arg = dyn_cast<BlockArgument>(value))
    base = place(Place::Input, func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "msamp.name").getValue(), type);
  else if (auto op = value.getDefiningOp<arith::ConstantOp>())
    base = place(Place::Constant, shared.constantFor(cast<ElementsAttr>(op.getValue())).getValue(), type);
  else if (auto op = value.getDefiningOp<GetOp>())
    base = place(Place::Weight, op.getParam(), type);
  else if (auto op = value.getDefiningOp<GetScaleOp>())
    base = place(Place::WeightScale, op.getParam(), type);
  else if (auto op = value.getDefiningOp<GetAmaxOp>())
    base = place(Place::WeightAmax, op.getParam(), type);
  else if (auto op = value.getDefiningOp<SiteScaleOp>())
    base = place(Place::SiteScale, op.getSite(), type);
  return memories[value] = rowMajor(base, type);
}

// Row-major memory that holds the value: its own, or a copy that later steps share.
TensorMemory FunctionLowering::contiguous(Value value) {
  TensorMemory memory = memoryOf(value);
  if (memory.isContiguous()) {
    memory.strides = rowMajorStrides(memory.shape);
    return memory;
  }
  auto found = contiguousCopies.find(value);
  if (found != contiguousCopies.end())
    return found->second;
  TensorMemory target = temporary(value.getLoc(), "copy", typeOf(value));
  copy(value.getLoc(), memory, target);
  return contiguousCopies[value] = target;
}

TensorMemory FunctionLowering::withUnitInnerStride(Value value) {
  TensorMemory memory = memoryOf(value);
  return memory.shape.empty() || memory.shape.back() == 1 || memory.strides.back() == 1 ? memory : contiguous(value);
}

//===--- Destinations ----------------------------------------------------------------------------------------===//

TensorMemory FunctionLowering::gradPlace(StoreGradOp op) {
  auto type = typeOf(op.getGrad());
  // Sums over micro-batches are kept in FP32 whatever the type of one gradient.
  if (op.getAccumulate())
    type = RankedTensorType::get(type.getShape(), builder.getF32Type());
  return rowMajor(place(Place::Grad, op.getParam(), type), type);
}

TensorMemory FunctionLowering::outputPlace(OpOperand &use) {
  auto type = typeOf(use.get());
  return rowMajor(place(Place::Output, resultName(func, use.getOperandNumber()), type), type);
}

TensorMemory FunctionLowering::concatMemory(ConcatOp op) {
  auto found = concats.find(op);
  if (found != concats.end())
    return found->second;
  TensorMemory memory = define(op.getResult(), /*strided=*/false);
  return concats[op] = memory;
}

static TensorMemory partOfConcat(const TensorMemory &whole, OpOperand &use) {
  auto concat = cast<ConcatOp>(use.getOwner());
  SmallVector<int64_t> starts(whole.shape.size(), 0), steps(whole.shape.size(), 1);
  for (unsigned i = 0; i < use.getOperandNumber(); ++i)
    starts[concat.getDim()] += typeOf(concat.getInputs()[i]).getDimSize(concat.getDim());
  return whole.slice(starts, steps, typeOf(use.get()).getShape());
}

std::optional<TensorMemory> FunctionLowering::destinationOf(Value value, bool strided, Uses &satisfied) {
  for (OpOperand &use : value.getUses())
    if (isa<func::ReturnOp>(use.getOwner())) {
      satisfied.push_back(&use);
      return outputPlace(use);
    }
  if (!value.hasOneUse())
    return std::nullopt;
  OpOperand &use = *value.use_begin();
  if (auto store = dyn_cast<StoreGradOp>(use.getOwner())) {
    if (store.getAccumulate() || use.get() != store.getGrad())
      return std::nullopt;
    satisfied.push_back(&use);
    return gradPlace(store);
  }
  if (auto reshape = dyn_cast<ReshapeOp>(use.getOwner())) {
    auto target = destinationOf(reshape.getResult(), strided, satisfied);
    return target ? target->reshape(typeOf(value).getShape()) : std::nullopt;
  }
  if (auto concat = dyn_cast<ConcatOp>(use.getOwner())) {
    TensorMemory part = partOfConcat(concatMemory(concat), use);
    if (!(strided ? part.strides.back() == 1 : part.isContiguous()))
      return std::nullopt;
    satisfied.push_back(&use);
    return part;
  }
  return std::nullopt;
}

TensorMemory FunctionLowering::define(Value result, bool strided) {
  Uses satisfied;
  if (auto target = destinationOf(result, strided, satisfied)) {
    written.insert(satisfied.begin(), satisfied.end());
    return memories[result] = *target;
  }
  StringRef name = result.getDefiningOp()->getName().stripDialect();
  auto role = result.use_empty() ? BufferRole::Workspace : BufferRole::Activation;
  return memories[result] = temporary(result.getLoc(), name, typeOf(result), role);
}

//===--- Views and data movement -----------------------------------------------------------------------------===//

Value FunctionLowering::view(Location loc, const TensorMemory &memory) {
  MemRefType type = memory.memrefType();
  if (memory.offset == 0 && memory.base.getType() == type)
    return memory.base;
  Value &known = views[{{memory.base, type}, memory.offset}];
  if (known)
    return known;
  OpBuilder declarations(builder);
  declarations.setInsertionPointAfter(lastDeclaration);
  auto op = planir::ViewOp::create(declarations, loc, type, memory.base, memory.offset);
  lastDeclaration = op;
  return known = op.getView();
}

void FunctionLowering::copy(Location loc, const TensorMemory &from, const TensorMemory &to) {
  step<planir::CopyOp>(loc, {from}, {to}, 0);
}

void FunctionLowering::fill(Location loc, const TensorMemory &to, double value) {
  step<planir::FillOp>(loc, {}, {to}, 0, APFloat(value));
}

LogicalResult FunctionLowering::lowerView(Operation *op) {
  Value input = op->getOperand(0), result = op->getResult(0);
  TensorMemory memory = memoryOf(input);
  if (auto slice = dyn_cast<SliceOp>(op)) {
    memories[result] = memory.slice(slice.getStarts(), slice.getStrides(), typeOf(result).getShape());
  } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
    memories[result] = memory.transpose(transpose.getPerm());
  } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    memories[result] = memory.broadcast(broadcast.getDims(), typeOf(result).getShape());
  } else {
    auto reshaped = memory.reshape(typeOf(result).getShape());
    memories[result] = reshaped ? *reshaped : *contiguous(input).reshape(typeOf(result).getShape());
  }
  return success();
}

LogicalResult FunctionLowering::lowerConcat(ConcatOp op) {
  TensorMemory whole = concatMemory(op);
  for (OpOperand &use : op->getOpOperands())
    if (!written.contains(&use))
      copy(op.getLoc(), memoryOf(use.get()), partOfConcat(whole, use));
  return success();
}

LogicalResult FunctionLowering::lowerPad(PadOp op) {
  TensorMemory whole = define(op.getResult(), /*strided=*/false);
  fill(op.getLoc(), whole, op.getValue().convertToDouble());
  copy(op.getLoc(), memoryOf(op.getInput()),
       whole.slice(op.getLow(), op.getStrides(), typeOf(op.getInput()).getShape()));
  return success();
}

//===--- Module ----------------------------------------------------------------------------------------------===//

ModuleLowering::ModuleLowering(ModuleOp module, KernelShapeFn shape)
    : module(module), builder(module.getContext()), shape(std::move(shape)) {
  builder.setInsertionPointToEnd(module.getBody());
}

StringAttr ModuleLowering::constantFor(ElementsAttr value) {
  StringAttr &known = constants[value];
  if (known)
    return known;
  auto op = planir::ConstantOp::create(builder, module.getLoc(), ("constant" + Twine(nextConstant++)).str(), value);
  return known = op.getSymNameAttr();
}

planir::KernelOp ModuleLowering::kernelFor(ClusterOp cluster) {
  auto kernel = planir::KernelOp::create(builder, cluster.getLoc(), "kernel", 1, false, 0, "");
  Block &block = kernel.getBody().emplaceBlock();
  IRMapping mapping;
  for (Value input : cluster.getInputs())
    mapping.map(input, block.addArgument(input.getType(), input.getLoc()));
  OpBuilder inside = OpBuilder::atBlockEnd(&block);
  auto copy = cast<ClusterOp>(inside.clone(*cluster.getOperation(), mapping));

  std::string text;
  llvm::raw_string_ostream stream(text);
  copy->print(stream, OpPrintingFlags().printGenericOpForm().useLocalScope());
  planir::KernelOp &known = kernels[text];
  if (known) {
    kernel.erase();
    return known;
  }
  SmallVector<StringRef> ops;
  copy.getBody().walk([&](Operation *op) {
    StringRef name = op->getName().stripDialect();
    if (!isa<YieldOp, arith::ConstantOp>(op) && !llvm::is_contained(ops, name))
      ops.push_back(name);
  });
  KernelShape cut = shape ? shape(copy) : KernelShape();
  kernel.setSymName(("kernel" + Twine(nextKernel++)).str());
  kernel.setChunks(cut.chunks);
  kernel.setFinish(cut.finish);
  kernel.setWorkspace(cut.workspaceBytes);
  kernel.setOps(llvm::join(ops, " "));
  return known = kernel;
}

namespace {
struct LowerToPlan : impl::LowerToPlanBase<LowerToPlan> {
  LowerToPlan() = default;
  explicit LowerToPlan(KernelShapeFn shape) : shape(std::move(shape)) {}

  // Inputs of all functions by name, in the order of the first function that has them.
  LogicalResult noteInputs(func::FuncOp func, SmallVectorImpl<NamedAttribute> &inputs) {
    Builder b(&getContext());
    auto bounds = getOperation()->getAttrOfType<DictionaryAttr>("msamp.bounds");
    for (BlockArgument arg : func.getArguments()) {
      auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "msamp.name");
      if (!name)
        return func.emitError() << "argument " << arg.getArgNumber() << " of @" << func.getName()
                                << " has no msamp.name";
      auto known = llvm::find_if(inputs, [&](NamedAttribute input) { return input.getName() == name; });
      SmallVector<NamedAttribute> entry{b.getNamedAttr("type", TypeAttr::get(arg.getType()))};
      if (func.getArgAttr(arg.getArgNumber(), "msamp.labels"))
        entry.push_back(b.getNamedAttr("labels", b.getUnitAttr()));
      if (Attribute bound = bounds ? bounds.get(name) : Attribute())
        entry.push_back(b.getNamedAttr("bound", bound));
      auto value = b.getDictionaryAttr(entry);
      if (known == inputs.end())
        inputs.push_back(NamedAttribute(name, value));
      else if (known->getValue() != value)
        return func.emitError() << "input " << name << " of @" << func.getName() << " is " << value
                                << ", elsewhere it is " << known->getValue();
    }
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ModuleLowering shared(module, shape);
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    SmallVector<NamedAttribute> inputs;
    OpBuilder builder(&getContext());
    builder.setInsertionPointToEnd(module.getBody());
    for (func::FuncOp func : functions) {
      if (failed(noteInputs(func, inputs)))
        return signalPassFailure();
      eraseDeadOps(func);
      SmallVector<StringRef> outputs;
      for (unsigned i = 0; i < func.getNumResults(); ++i) {
        outputs.push_back(resultName(func, i));
        if (outputs.back().empty()) {
          func.emitError() << "result " << i << " of @" << func.getName() << " has no msamp.name";
          return signalPassFailure();
        }
      }
      auto program =
          planir::ProgramOp::create(builder, func.getLoc(), func.getName(), 0, 0, builder.getStrArrayAttr(outputs));
      program.getBody().emplaceBlock();
      if (failed(FunctionLowering(shared, func, program).run()))
        return signalPassFailure();
      func.erase();
    }
    SmallVector<Attribute> list;
    for (NamedAttribute input : inputs) {
      SmallVector<NamedAttribute> entry(cast<DictionaryAttr>(input.getValue()).getValue());
      entry.push_back(builder.getNamedAttr("name", input.getName()));
      list.push_back(builder.getDictionaryAttr(entry));
    }
    module->setAttr("plan.inputs", builder.getArrayAttr(list));
  }

  KernelShapeFn shape;
};
} // namespace

std::unique_ptr<Pass> createLowerToPlan(KernelShapeFn shape) {
  return std::make_unique<LowerToPlan>(std::move(shape));
}

} // namespace msamp::schedule
