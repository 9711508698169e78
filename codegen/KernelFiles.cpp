// A library for the CPU; PTX, and a cubin where there is an assembler, for a GPU.
#include "codegen/KernelFiles.h"

#include "codegen/cpu/CpuKernels.h"
#include "codegen/cuda/CudaKernels.h"
#include "passes/partition/Types.h"
#include "runtime/core/Error.h"
#include "runtime/plan/PlanIO.h"

#include "mlir/IR/Remarks.h"

namespace msamp::codegen {
using namespace mlir;
using runtime::failInternal;
namespace fs = std::filesystem;

namespace {

// Calls `cluster` for each kernel with its cluster and `update` for each state class that is trained.
template <typename Cluster, typename Update>
void forEachKernel(ModuleOp module, plan::Plan &plan, const PlanOptions &options, Cluster cluster, Update update) {
  int index = 0;
  for (auto kernel : module.getOps<planir::KernelOp>()) {
    if (options.cancelled && options.cancelled())
      runtime::fail(runtime::Exit::TryAgain, "interrupted; nothing was written");
    if (failed(cluster(cast<ClusterOp>(kernel.getBody().front().front()), *plan.mutable_kernels(index++))))
      failInternal("kernel {} ({}) cannot be compiled", kernel.getSymName().str(), kernel.getOps().str());
  }
  partition::StepSettings settings(module);
  for (plan::StateClass &c : *plan.mutable_classes())
    if (!c.update_kernel().empty() && failed(update(c, settings.storage(StringRef(c.name())), settings.optimizer)))
      failInternal("the update kernel of state class {} cannot be compiled", c.name());
}

void writeCpuKernels(ModuleOp module, plan::Plan &plan, const PlanOptions &options, const fs::path &directory,
                     const std::string &part) {
  CpuKernels kernels(module.getContext());
  forEachKernel(
      module, plan, options,
      [&](ClusterOp cluster, plan::Kernel &kernel) { return kernels.addCluster(cluster, kernel.symbol()); },
      [&](plan::StateClass &c, const partition::ClassStorage &storage, StringRef optimizer) {
        return kernels.addUpdate(c.update_kernel(), storage, optimizer);
      });
  if (failed(kernels.writeLibrary((directory / part).string())))
    failInternal("the kernels cannot be compiled into a library");
  runtime::addPart(plan, directory, part);
}

void setEntry(plan::Entry &entry, const cuda::KernelEntry &from) {
  entry.set_symbol(from.symbol);
  entry.set_grid_x(static_cast<uint32_t>(from.gridX));
  entry.set_grid_y(static_cast<uint32_t>(from.gridY));
  entry.set_block(static_cast<uint32_t>(from.block));
  entry.set_shared_bytes(static_cast<uint32_t>(from.sharedBytes));
}

void remarkUsage(ModuleOp module, const std::vector<cuda::EntryUsage> &usage) {
  for (const cuda::EntryUsage &entry : usage) {
    auto about = remark::RemarkOpts::name("registers").category("codegen");
    std::string text = entry.symbol + ": " + std::to_string(entry.registers) + " registers";
    if (entry.spillBytes > 0)
      remark::missed(module.getLoc(), about) << text + ", " + std::to_string(entry.spillBytes) + " bytes spilled";
    else
      remark::analysis(module.getLoc(), about) << text;
  }
}

void writeGpuKernels(ModuleOp module, const cuda::Target &target, plan::Plan &plan, const PlanOptions &options,
                     const fs::path &directory) {
  cuda::CudaKernels kernels(module.getContext(), target);
  forEachKernel(
      module, plan, options,
      [&](ClusterOp cluster, plan::Kernel &kernel) {
        kernel.set_reference_workspace_bytes(static_cast<uint64_t>(cpuKernelShape(cluster).workspaceBytes));
        SmallVector<cuda::KernelEntry> entries;
        LogicalResult result = kernels.addCluster(cluster, kernel.symbol(), entries);
        for (const cuda::KernelEntry &entry : entries)
          setEntry(*kernel.add_entries(), entry);
        return result;
      },
      [&](plan::StateClass &c, const partition::ClassStorage &storage, StringRef optimizer) {
        cuda::KernelEntry entry;
        int64_t blocksPerCta = 0;
        LogicalResult result = kernels.addUpdate(c.update_kernel(), storage, optimizer, entry, blocksPerCta);
        setEntry(*c.mutable_update_entry(), entry);
        c.set_update_blocks_per_cta(static_cast<uint32_t>(blocksPerCta));
        return result;
      });
  std::string ptx = "kernels/" + target.name + ".ptx", cubin = "kernels/" + target.name + ".cubin";
  if (failed(kernels.writePtx((directory / ptx).string())))
    failInternal("the kernels cannot be compiled for {}", target.name);
  runtime::addPart(plan, directory, ptx);
  std::string assembler = cuda::findAssembler(), message;
  if (assembler.empty()) {
    remark::missed(module.getLoc(), remark::RemarkOpts::name("cubin").category("codegen"))
        << "no ptxas in PATH, CUDA_HOME or /usr/local/cuda: the plan has PTX only, which the driver compiles at load";
    return;
  }
  std::vector<cuda::EntryUsage> usage;
  if (failed(
          cuda::assemble(assembler, target, (directory / ptx).string(), (directory / cubin).string(), usage, message)))
    failInternal("{} refuses the kernels for {}: {}", assembler, target.name, message);
  runtime::addPart(plan, directory, cubin);
  remarkUsage(module, usage);
}

} // namespace

void writeKernels(ModuleOp module, plan::Plan &plan, const PlanOptions &options, const fs::path &directory) {
  std::optional<cuda::Target> target = cuda::Target::parse(options.target);
  if (!target)
    return writeCpuKernels(module, plan, options, directory, "kernels/cpu.so");
  writeGpuKernels(module, *target, plan, options, directory);
  if (options.referenceKernels)
    writeCpuKernels(module, plan, options, directory, "kernels/reference.so");
}

} // namespace msamp::codegen
