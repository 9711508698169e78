// msamp-kernel-check PLAN [SYMBOL]: runs each kernel of a plan that was compiled with --reference-kernels on the GPU
// and compares it with the CPU's; a line a kernel with its error, time and share of what a copy of as many bytes
// reaches.
#include "runtime/core/Error.h"
#include "runtime/core/MappedFile.h"
#include "runtime/device/Targets.h"
#include "tests/gpu/Check.h"
#include "tests/gpu/RunCheck.h"

#include <cstdlib>
#include <dlfcn.h>
#include <iostream>
#include <unistd.h>

namespace msamp::gputest {

void *Context::function(const std::string &symbol) const {
  void *found = nullptr;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    found = dlsym(reference, (symbol + ".v4").c_str());
  return found ? found : dlsym(reference, symbol.c_str());
}

namespace {

constexpr const char *resume = "MSAMP_KERNEL_CHECK_RESUME"; // "next checked wrong" of a process that lost its device

std::string read(const std::filesystem::path &path) {
  runtime::MappedFile file(path);
  return {reinterpret_cast<const char *>(file.data()), file.size()};
}

int check(int argc, char **argv) {
  if (argc < 2 || argc > 3)
    runtime::failUsage("usage: msamp-kernel-check PLAN [SYMBOL]");
  runtime::LoadedPlan loaded = runtime::loadPlan(argv[1]);
  Progress progress;
  if (const char *state = std::getenv(resume))
    if (std::sscanf(state, "%d %d %d", &progress.skip, &progress.checked, &progress.wrong) != 3)
      runtime::failUsage("{} is not what this program sets", resume);
  try {
    Gpu gpu;
    const std::vector<std::string> targets = runtime::targetNames(loaded.plan);
    const std::optional<size_t> chosen = runtime::targetForGpu(targets, gpu.capability());
    if (!chosen)
      runtime::failData("{} is for {}, and {} has compute capability {}.{}", argv[1], fmt::join(targets, ", "), gpu.name(),
                        gpu.capability() / 10, gpu.capability() % 10);
    loaded.chosen = *chosen;
    const std::string &target = loaded.target().name();
    const auto kernels = loaded.directory / "kernels", cpu = kernels / (target + ".reference.so");
    if (!std::filesystem::exists(cpu))
      runtime::failData("{} does not exist: compile the plan with msampc --reference-kernels", cpu.string());
    void *reference = dlopen(cpu.c_str(), RTLD_NOW);
    if (!reference)
      runtime::failData("{}", dlerror());
    const auto cubin = kernels / (target + ".cubin");
    const bool assembled = std::filesystem::exists(cubin);
    if (progress.skip == 0)
      std::cout << fmt::format("{}, compute capability {}.{}; {} of {}\n", gpu.name(), gpu.capability() / 10,
                               gpu.capability() % 10, target + (assembled ? ".cubin" : ".ptx"), argv[1])
                << std::flush;
    void *module = gpu.loadModule(read(assembled ? cubin : kernels / (target + ".ptx")));
    Context context{loaded, gpu, module, reference, argc > 2 ? argv[2] : ""};
    checkKernels(context, progress);
    checkUpdates(context, progress);
  } catch (const GpuError &e) {
    if (!e.lost || progress.next == 0)
      throw;
    // The device is lost to this process, not to the next.
    const std::string state = fmt::format("{} {} {}", progress.next, progress.checked, progress.wrong);
    setenv(resume, state.c_str(), 1);
    execv("/proc/self/exe", argv);
    runtime::failInternal("cannot start again after {}", e.what());
  }
  std::cout << fmt::format("kernels: {} checked, {} wrong", progress.checked, progress.wrong) << std::endl;
  return progress.wrong > 0 ? 1 : 0;
}

} // namespace
} // namespace msamp::gputest

int main(int argc, char **argv) {
  using namespace msamp::gputest;
  return runCheck("msamp-kernel-check", [&] { return check(argc, argv); });
}
