// Tables of a plan: inputs, constants, parameters, classes, buckets, sites, kernels. Programs are in BuildProgram.cpp.
#include "codegen/BuildPlan.h"

#include "codegen/PlanBuilder.h"
#include "passes/partition/Types.h"
#include "runtime/core/Error.h"

#include "llvm/Support/MathExtras.h"

namespace msamp::codegen {
using namespace mlir;
using runtime::failInternal;

plan::Type planType(Type type) {
  if (type.isF32())
    return plan::F32;
  if (type.isBF16())
    return plan::BF16;
  if (type.isF16())
    return plan::F16;
  if (isa<Float8E4M3FNType>(type))
    return plan::E4M3;
  if (isa<Float8E5M2Type>(type))
    return plan::E5M2;
  if (type.isInteger(64))
    return plan::I64;
  if (type.isInteger(32))
    return plan::I32;
  if (type.isInteger(8))
    return type.isUnsignedInteger() ? plan::U8 : plan::I8;
  if (type.isInteger(1))
    return plan::BOOL;
  std::string text;
  llvm::raw_string_ostream(text) << type;
  failInternal("elements of type {} cannot be stored in a plan", text);
}

static plan::Type planType(partition::Storage storage) {
  switch (storage) {
  case partition::Storage::F32:
    return plan::F32;
  case partition::Storage::BF16:
    return plan::BF16;
  case partition::Storage::F16:
    return plan::F16;
  case partition::Storage::E4M3:
    return plan::E4M3;
  case partition::Storage::E5M2:
    return plan::E5M2;
  case partition::Storage::None:
    return plan::NONE;
  }
  return plan::NONE;
}

std::string updateSymbol(StringRef className) {
  return ("update_" + className).str();
}

template <typename T>
static T moduleAttr(ModuleOp module, StringRef name) {
  return module->getAttrOfType<T>(name);
}

static std::string text(ModuleOp module, StringRef name) {
  auto attr = moduleAttr<StringAttr>(module, name);
  return attr ? attr.getValue().str() : "";
}

void PlanBuilder::addHeader() {
  partition::StepSettings settings(module);
  out.set_source(text(module, "msamp.source"));
  out.set_source_sha256(text(module, "msamp.source_sha256"));
  out.set_loss(settings.loss);
  out.set_level(settings.level);
  out.set_recipe(settings.recipe);
  out.set_optimizer(settings.optimizer);
  out.set_accumulate(static_cast<uint32_t>(settings.accumulate));
  out.set_zero(static_cast<uint32_t>(settings.zero));
  auto history = moduleAttr<IntegerAttr>(module, "msamp.history");
  out.set_history(history ? static_cast<uint32_t>(history.getInt()) : 0);
}

void PlanBuilder::addInputs() {
  auto inputs = moduleAttr<ArrayAttr>(module, "plan.inputs");
  if (!inputs)
    failInternal("the module has no plan.inputs: it has not been through the schedule phase");
  uint64_t tokens = 0;
  for (auto entry : inputs.getAsRange<DictionaryAttr>()) {
    plan::Input &input = *out.add_inputs();
    auto type = cast<RankedTensorType>(cast<TypeAttr>(entry.get("type")).getValue());
    input.set_name(cast<StringAttr>(entry.get("name")).getValue().str());
    input.set_type(planType(type.getElementType()));
    for (int64_t size : type.getShape())
      input.add_shape(size);
    input.set_is_labels(entry.contains("labels"));
    if (auto bound = entry.getAs<IntegerAttr>("bound"))
      input.set_bound(bound.getInt());
    input.set_allow_ignore(input.is_labels() && input.bound() > 0);
    inputIndex[input.name()] = static_cast<uint32_t>(out.inputs_size() - 1);
    // A token is a position that has a label; without labels, an element of the first integer input, or a sample.
    uint64_t elements = static_cast<uint64_t>(type.getNumElements());
    if (input.is_labels())
      out.set_tokens_per_micro_batch(elements);
    else if (tokens == 0)
      tokens = isa<IntegerType>(type.getElementType()) || type.getRank() == 0 ? elements : type.getDimSize(0);
  }
  if (out.tokens_per_micro_batch() == 0)
    out.set_tokens_per_micro_batch(tokens);
}

void PlanBuilder::addConstants() {
  uint64_t offset = 0;
  for (auto op : module.getOps<planir::ConstantOp>()) {
    auto type = cast<ShapedType>(op.getValue().getType());
    plan::Constant &constant = *target.add_constants();
    constant.set_name(op.getSymName().str());
    constant.set_type(planType(type.getElementType()));
    for (int64_t size : type.getShape())
      constant.add_shape(size);
    constant.set_offset(offset);
    constant.set_bytes(static_cast<uint64_t>(type.getNumElements() * planir::elementBytes(type.getElementType())));
    offset = llvm::alignTo(offset + constant.bytes(), 64);
    constantIndex[op.getSymName()] = static_cast<uint32_t>(target.constants_size() - 1);
  }
}

static void setInitialisation(ParameterOp op, plan::Parameter &parameter) {
  if (!op.getInit())
    return parameter.set_init(plan::Parameter::FROM_FILE);
  switch (op.getRole()) {
  case ParameterRole::Scale:
  case ParameterRole::Variance:
    return parameter.set_init(plan::Parameter::ONES);
  case ParameterRole::Shift:
  case ParameterRole::Bias:
  case ParameterRole::Mean:
    return parameter.set_init(plan::Parameter::ZEROS);
  default:
    parameter.set_init(plan::Parameter::NORMAL);
    parameter.set_init_stddev(op.getInit()->convertToDouble());
  }
}

uint32_t PlanBuilder::classIndex(StringRef name) {
  auto [known, added] = classes.try_emplace(name, out.classes_size());
  if (!added)
    return known->second;
  partition::ClassStorage storage = partition::StepSettings(module).storage(name);
  plan::StateClass &c = *out.add_classes();
  c.set_name(name.str());
  c.set_weight(planType(storage.weight));
  c.set_master(planType(storage.master));
  c.set_grad(planType(storage.grad));
  c.set_m(planType(storage.m));
  c.set_v(planType(storage.v));
  c.set_weight_scaled(storage.weightScaled);
  c.set_master_scaled(storage.masterScaled);
  c.set_wire(planType(storage.wire));
  if (partition::isUpdated(std::string_view(name)))
    c.set_update_kernel(updateSymbol(name));
  return known->second;
}

void PlanBuilder::addParameters() {
  llvm::StringMap<uint64_t> offsets; // of trained parameters, by their buckets
  auto elementsOf = [&](StringRef name) {
    auto op = module.lookupSymbol<ParameterOp>(name);
    if (!op)
      failInternal("a bucket holds {}, which is no parameter", name.str());
    return static_cast<uint64_t>(op.getTensorType().getNumElements());
  };
  for (auto bucket : module.getOps<BucketOp>()) {
    uint64_t offset = bucket.getOffset();
    for (auto param : bucket.getParams().getAsRange<FlatSymbolRefAttr>()) {
      offsets[param.getValue()] = offset;
      offset += static_cast<uint64_t>(partition::padded(static_cast<int64_t>(elementsOf(param.getValue()))));
    }
  }
  for (auto op : module.getOps<ParameterOp>()) {
    uint32_t index = classIndex(partition::StepSettings::className(op));
    plan::StateClass &c = *out.mutable_classes(static_cast<int>(index));
    plan::Parameter &parameter = *out.add_parameters();
    parameter.set_name(op.getSymName().str());
    for (int64_t size : op.getTensorType().getShape())
      parameter.add_shape(size);
    parameter.set_role(static_cast<plan::Parameter::Role>(op.getRole()));
    parameter.set_trained(op.getTrained());
    parameter.set_state_class(index);
    uint64_t elements = static_cast<uint64_t>(op.getTensorType().getNumElements());
    uint64_t size = static_cast<uint64_t>(partition::padded(static_cast<int64_t>(elements)));
    if (op.getTrained()) {
      auto place = offsets.find(op.getSymName());
      if (place == offsets.end())
        failInternal("trained parameter {} is in no bucket", op.getSymName().str());
      parameter.set_offset(place->second);
    } else {
      parameter.set_offset(c.elements());
    }
    c.set_elements(std::max(c.elements(), parameter.offset() + size));
    c.set_values(c.values() + elements);
    if (auto twins = op.getTwins())
      for (auto entry : twins->getAsRange<DictionaryAttr>()) {
        plan::Twin &twin = *parameter.add_twins();
        twin.set_name(cast<StringAttr>(entry.get("name")).getValue().str());
        twin.set_transposed(entry.contains("transposed"));
      }
    setInitialisation(op, parameter);
    parameter.set_weight_slot(static_cast<uint32_t>(out.parameters_size() - 1));
    parameterIndex[op.getSymName()] = static_cast<uint32_t>(out.parameters_size() - 1);
  }
}

void PlanBuilder::addBuckets() {
  for (auto op : module.getOps<BucketOp>()) {
    plan::Bucket &bucket = *out.add_buckets();
    bucket.set_name(op.getSymName().str());
    bucket.set_state_class(classIndex(stringifyStateClass(op.getStateClass())));
    bucket.set_offset(op.getOffset());
    bucket.set_elements(op.getElements());
    for (auto param : op.getParams().getAsRange<FlatSymbolRefAttr>())
      bucket.add_parameters(parameterIndex.lookup(param.getValue()));
    bucketIndex[op.getSymName()] = static_cast<uint32_t>(out.buckets_size() - 1);
  }
}

void PlanBuilder::addSites() {
  for (auto op : module.getOps<SiteOp>()) {
    plan::Site &site = *out.add_sites();
    site.set_name(op.getSymName().str());
    site.set_kind(static_cast<plan::Site::Kind>(op.getKind()));
    site.set_format(planType(op.getFormat()));
    site.set_margin(static_cast<uint32_t>(op.getMargin()));
    siteIndex[op.getSymName()] = static_cast<uint32_t>(out.sites_size() - 1);
  }
}

void PlanBuilder::addKernels() {
  for (auto op : module.getOps<planir::KernelOp>()) {
    plan::Kernel &kernel = *target.add_kernels();
    kernel.set_symbol(op.getSymName().str());
    kernel.set_chunks(static_cast<uint32_t>(op.getChunks()));
    kernel.set_finish(op.getFinish());
    kernel.set_cluster(op.getOps().str());
    kernelIndex[op.getSymName()] = static_cast<uint32_t>(target.kernels_size() - 1);
  }
}

static plan::Plan buildPlan(const TargetModule &from) {
  ModuleOp module = from.module;
  PlanBuilder builder(from.target, module);
  builder.addHeader();
  builder.addInputs();
  builder.addConstants();
  builder.addParameters();
  builder.addBuckets();
  builder.addSites();
  builder.addKernels();
  for (auto program : module.getOps<planir::ProgramOp>())
    builder.addProgram(program);
  return std::move(builder.out);
}

plan::Plan buildPlan(ArrayRef<TargetModule> modules) {
  plan::Plan all;
  std::string shared; // what the targets have in common, serialised
  for (const TargetModule &from : modules) {
    plan::Plan one = buildPlan(from);
    plan::Target target = one.targets(0);
    one.clear_targets();
    std::string own = one.SerializeAsString();
    if (all.targets_size() == 0) {
      shared = std::move(own);
      all = std::move(one);
    } else if (own != shared) {
      runtime::failData("the modules for {} and {} do not train the same state: they are of different models or were "
                        "compiled with different flags",
                        all.targets(0).name(), from.target);
    }
    *all.add_targets() = std::move(target);
  }
  return all;
}

} // namespace msamp::codegen
