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

// What is compiled, for which target of which plan, and where to.
struct Job {
  ModuleOp module;
  plan::Plan &plan;
  plan::Target &target;
  const PlanOptions &options;
  const fs::path &directory;

  // Path within the plan of the file of that extension.
  std::string part(StringRef extension) const { return ("kernels/" + target.name() + "." + extension).str(); }
  std::string pathOf(const std::string &part) const { return (directory / part).string(); }
  void addPart(const std::string &part) const { runtime::addPart(plan, directory, part); }
};

// Calls `cluster` for each kernel with its cluster and `update` for each state class that is trained, with its index.
template <typename Cluster, typename Update>
void forEachKernel(Job &job, Cluster cluster, Update update) {
  int index = 0;
  for (auto kernel : job.module.getOps<planir::KernelOp>()) {
    if (job.options.cancelled && job.options.cancelled())
      runtime::fail(runtime::Exit::TryAgain, "interrupted; nothing was written");
    if (failed(cluster(cast<ClusterOp>(kernel.getBody().front().front()), *job.target.mutable_kernels(index++))))
      failInternal("kernel {} ({}) cannot be compiled", kernel.getSymName().str(), kernel.getOps().str());
  }
  partition::StepSettings settings(job.module);
  for (int i = 0; i < job.plan.classes_size(); ++i) {
    const plan::StateClass &c = job.plan.classes(i);
    if (!c.update_kernel().empty() && failed(update(i, settings.storage(StringRef(c.name())), settings.optimizer)))
      failInternal("the update kernel of state class {} cannot be compiled", c.name());
  }
}

// A linker or an assembler that could not write says so in its own words and on its own channel.
template <class... Args>
[[noreturn]] void failWriting(const Job &job, fmt::format_string<Args...> why, Args &&...args) {
  std::error_code error;
  const auto room = std::filesystem::space(job.directory, error);
  if (constexpr uint64_t little = 16 << 20; !error && room.available < little)
    runtime::failIo("cannot write kernels below {}: {} KiB are left on its device ({})",
                    job.directory.parent_path().string(), room.available >> 10, fmt::format(why, args...));
  failInternal(why, std::forward<Args>(args)...);
}

void writeCpuKernels(Job &job, const std::string &part) {
  CpuKernels kernels(job.module.getContext());
  forEachKernel(
      job,
      [&](ClusterOp cluster, plan::Kernel &kernel) { return kernels.addCluster(cluster, kernel.symbol()); },
      [&](int index, const partition::ClassStorage &storage, StringRef optimizer) {
        return kernels.addUpdate(job.plan.classes(index).update_kernel(), storage, optimizer);
      });
  if (failed(kernels.writeLibrary(job.pathOf(part))))
    failWriting(job, "the kernels cannot be compiled into a library");
  job.addPart(part);
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

void writeGpuKernels(Job &job, const cuda::Target &target) {
  cuda::CudaKernels kernels(job.module.getContext(), target);
  for (int i = 0; i < job.plan.classes_size(); ++i)
    job.target.add_updates();
  forEachKernel(
      job,
      [&](ClusterOp cluster, plan::Kernel &kernel) {
        kernel.set_reference_workspace_bytes(static_cast<uint64_t>(cpuKernelShape(cluster).workspaceBytes));
        SmallVector<cuda::KernelEntry> entries;
        LogicalResult result = kernels.addCluster(cluster, kernel.symbol(), entries);
        for (const cuda::KernelEntry &entry : entries)
          setEntry(*kernel.add_entries(), entry);
        return result;
      },
      [&](int index, const partition::ClassStorage &storage, StringRef optimizer) {
        cuda::KernelEntry entry;
        int64_t blocksPerCta = 0;
        LogicalResult result = kernels.addUpdate(job.plan.classes(index).update_kernel(), storage, optimizer, entry, blocksPerCta);
        plan::UpdateLaunch &launch = *job.target.mutable_updates(index);
        setEntry(*launch.mutable_entry(), entry);
        launch.set_blocks_per_cta(static_cast<uint32_t>(blocksPerCta));
        return result;
      });
  const std::string ptx = job.part("ptx"), cubin = job.part("cubin");
  if (failed(kernels.writePtx(job.pathOf(ptx))))
    failWriting(job, "the kernels cannot be compiled for {}", target.name);
  job.addPart(ptx);
  std::string assembler = cuda::findAssembler(), message;
  if (assembler.empty()) {
    remark::missed(job.module.getLoc(), remark::RemarkOpts::name("cubin").category("codegen"))
        << "no ptxas in PATH, CUDA_HOME or /usr/local/cuda: the plan has PTX only, which the driver compiles at load";
    return;
  }
  std::vector<cuda::EntryUsage> usage;
  if (failed(cuda::assemble(assembler, target, job.pathOf(ptx), job.pathOf(cubin), usage, message)))
    failWriting(job, "{} refuses the kernels for {}: {}", assembler, target.name, message);
  job.addPart(cubin);
  remarkUsage(job.module, usage);
}

} // namespace

void writeKernels(ModuleOp module, plan::Plan &plan, plan::Target &target, const PlanOptions &options,
                  const fs::path &directory) {
  Job job{module, plan, target, options, directory};
  std::optional<cuda::Target> gpu = cuda::Target::parse(target.name());
  if (!gpu)
    return writeCpuKernels(job, job.part("so"));
  writeGpuKernels(job, *gpu);
  if (options.referenceKernels)
    writeCpuKernels(job, job.part("reference.so"));
}

} // namespace msamp::codegen
