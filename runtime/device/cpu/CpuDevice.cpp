#include "runtime/device/cpu/CpuDevice.h"

#include "runtime/device/cpu/Convolution.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <sys/mman.h>

#include "runtime/core/Error.h"
#include "runtime/core/Fp8.h"
#include "runtime/core/Scale.h"
#include "runtime/device/Targets.h"

// Of the OpenMP runtime that oneDNN brings along (libgomp). A compiler's own would be a second one in the process.
extern "C" void omp_set_num_threads(int count);

namespace msamp::runtime::cpu {

namespace {

// Blocks of one parameter.
struct BlockSlice {
  uint32_t parameter;
  int64_t first, blocks;
};

} // namespace

Scratch::~Scratch() { std::free(data_); }

float *Scratch::get(size_t floats) {
  if (floats > capacity_) {
    std::free(data_);
    capacity_ = (floats + 1023) / 1024 * 1024;
    data_ = static_cast<float *>(std::aligned_alloc(64, capacity_ * sizeof(float)));
    if (!data_) {
      capacity_ = 0;
      failTryAgain("out of memory: {} bytes of scratch memory", floats * sizeof(float));
    }
  }
  return data_;
}

// oneDNN would start OpenMP threads of its own below ours.
CpuDevice::CpuDevice(unsigned threads) : pool_(threads, [] { omp_set_num_threads(1); }), ops_(vectorOps()), scratch_(threads) {}

CpuDevice::~CpuDevice() {
  if (library_)
    ::dlclose(library_);
}

std::string CpuDevice::description() const { return fmt::format("cpu, {} threads, x86-64-{}", threads(), ops_.name); }

void *CpuDevice::allocate(size_t bytes) {
  if (bytes == 0)
    return nullptr;
  // Pages come zeroed and are given on first touch.
  void *data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    failTryAgain("out of memory: {} bytes could not be had; use more ranks with --zero 1, a smaller batch or --recompute full", bytes);
  ::madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void CpuDevice::release(void *data, size_t bytes) {
  if (data)
    ::munmap(data, bytes);
}

void *CpuDevice::symbol(const std::string &name) const {
  // Kernels come for processors with AVX2, and once more for those with AVX-512.
  if (ops_.name == std::string_view("v2"))
    failData("the kernels need a processor with AVX2 and FMA (x86-64-v3); this one has neither");
  void *address = nullptr;
  if (library_ && ops_.name == std::string_view("v4"))
    address = ::dlsym(library_, (name + ".v4").c_str());
  if (library_ && !address)
    address = ::dlsym(library_, name.c_str());
  if (!address)
    failData("{}: has no kernel {}; compile the plan again", libraryPath_, name);
  return address;
}

void CpuDevice::upload(void *destination, const void *source, size_t bytes) { copyBytes(destination, source, bytes); }
void CpuDevice::download(void *destination, const void *source, size_t bytes) { copyBytes(destination, source, bytes); }
void CpuDevice::copyBytes(void *destination, const void *source, size_t bytes) {
  if (bytes > 0)
    std::memmove(destination, source, bytes);
}

size_t CpuDevice::chooseTarget(std::span<const std::string> targets) const {
  const auto own = std::find(targets.begin(), targets.end(), "cpu");
  if (own == targets.end())
    failData("the plan is for {}, and not for a CPU; compile it with --target {}, or run it with --device cuda",
        fmt::join(targets, ", "), targetsWith(targets, "cpu"));
  return static_cast<size_t>(own - targets.begin());
}

void CpuDevice::loadKernels(std::span<const std::string> files, std::span<const KernelRef> kernels) {
  const auto file = std::find_if(files.begin(), files.end(), [](const std::string &path) { return path.ends_with("/cpu.so"); });
  if (file == files.end())
    failData("the plan has no file of kernels for a CPU; compile it again");
  libraryPath_ = *file;
  library_ = ::dlopen(libraryPath_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) {
    const char *reason = ::dlerror();
    failData("cannot load the kernels {}: {}", libraryPath_, reason ? reason : "unknown reason");
  }
  kernels_.clear();
  for (const KernelRef &kernel : kernels) {
    Kernel loaded;
    loaded.symbol = kernel.symbol;
    loaded.chunks = kernel.chunks;
    loaded.run = reinterpret_cast<ChunkFunction>(symbol(kernel.symbol));
    if (kernel.finish)
      loaded.finish = reinterpret_cast<FinishFunction>(symbol(kernel.symbol + "_finish"));
    kernels_.push_back(std::move(loaded));
  }
}

void CpuDevice::launch(unsigned index, std::span<void *const> args) {
  const Kernel &kernel = kernels_.at(index);
  void *const *pointers = args.data();
  // A few grabs a thread balance the load; more only cost.
  const int64_t grain = std::max<int64_t>(1, kernel.chunks / (int64_t{8} * threads()));
  if (kernel.chunks == 1 || threads() == 1)
    kernel.run(pointers, 0, kernel.chunks);
  else
    pool_.run((kernel.chunks + grain - 1) / grain, [&](int64_t i, unsigned) {
      kernel.run(pointers, i * grain, std::min(kernel.chunks, (i + 1) * grain));
    });
  if (kernel.finish)
    kernel.finish(pointers);
}

unsigned CpuDevice::loadUpdateKernel(const UpdateKernelRef &kernel) {
  updates_.push_back(reinterpret_cast<ChunkFunction>(symbol(kernel.entry.symbol)));
  return static_cast<unsigned>(updates_.size() - 1);
}

void CpuDevice::update(unsigned index, const StepTables &tables, const UpdateArgs &args) {
  if (tables.state->skipped)
    return;
  // Slices of blocks of one parameter, small enough for their scales to be spread out on the stack.
  constexpr int64_t sliceBlocks = 64;
  std::vector<BlockSlice> slices;
  for (int64_t first = 0, next = 0; first < args.blocks; first = next) {
    while (next < args.blocks && next - first < sliceBlocks && args.owner[next] == args.owner[first])
      ++next;
    slices.push_back({static_cast<uint32_t>(args.owner[first]), first, next - first});
  }
  std::vector<std::atomic<uint32_t>> largest(tables.parameters);
  ChunkFunction run = updates_.at(index);
  auto at = [](void *base, Type type, int64_t block) -> void * {
    return base ? static_cast<std::byte *>(base) + static_cast<size_t>(block * blockSize) * sizeOf(type) : nullptr;
  };
  pool_.run(static_cast<int64_t>(slices.size()), [&](int64_t i, unsigned) {
    const BlockSlice &slice = slices[static_cast<size_t>(i)];
    const uint32_t p = slice.parameter;
    float gradScale[sliceBlocks], weightOld[sliceBlocks], weightNew[sliceBlocks], masterOld[sliceBlocks], masterNew[sliceBlocks];
    float blockAmax[sliceBlocks] = {};
    auto spread = [&](float *to, float value) { std::fill_n(to, slice.blocks, value); };
    if (args.gradBlockScale)
      std::copy_n(args.gradBlockScale + slice.first, slice.blocks, gradScale);
    else
      spread(gradScale, tables.gradScale[p]);
    spread(weightOld, tables.weightScale[p]);
    spread(weightNew, tables.newWeightScale[p]);
    spread(masterOld, tables.masterScale[p]);
    spread(masterNew, tables.newMasterScale[p]);
    float hyper[HyperSlots];
    std::copy_n(tables.state->kernelHyper, HyperSlots, hyper);
    void *const pointers[14] = {at(args.weight, args.weightType, slice.first), at(args.master, args.masterType, slice.first),
        at(args.grad, args.gradType, slice.first), gradScale, at(args.m, args.mType, slice.first),
        args.mBlockScale ? args.mBlockScale + slice.first : nullptr, at(args.v, args.vType, slice.first),
        args.vBlockScale ? args.vBlockScale + slice.first : nullptr, args.weightScaled ? weightOld : nullptr,
        args.weightScaled ? weightNew : nullptr, args.masterScaled ? masterOld : nullptr,
        args.masterScaled ? masterNew : nullptr, blockAmax, hyper};
    run(pointers, 0, slice.blocks);
    // Bits of magnitudes are ordered as the magnitudes are, NaN on top.
    uint32_t sliceLargest = ops_.largestMagnitude(blockAmax, slice.blocks);
    std::atomic<uint32_t> &whole = largest[p];
    for (uint32_t seen = whole.load(); seen < sliceLargest && !whole.compare_exchange_weak(seen, sliceLargest);)
      ;
  });
  for (uint32_t p = 0; p < tables.parameters; ++p)
    tables.newAmax[p] = floatOf(std::max(std::bit_cast<uint32_t>(tables.newAmax[p]), largest[p].load()));
}

void CpuDevice::reduceBlocks(std::span<const BlockSpan> sources, void *destination, Type type, float *scale, int64_t blocks) {
  constexpr int64_t runBlocks = 32;
  pool_.run((blocks + runBlocks - 1) / runBlocks, [&](int64_t run, unsigned) {
    for (int64_t b = run * runBlocks; b < std::min(blocks, (run + 1) * runBlocks); ++b) {
      float sum[blockSize], value[blockSize];
      for (size_t s = 0; s < sources.size(); ++s) {
        const BlockSpan &source = sources[s];
        float *to = s == 0 ? sum : value;
        decode(source.type, static_cast<const std::byte *>(source.data) + static_cast<size_t>(b * blockSize) * sizeOf(source.type),
            to, blockSize);
        if (source.scale && source.scale[b] != 1.0f)
          ops_.scale(to, 1.0f / source.scale[b], blockSize);
        if (s > 0)
          ops_.add(sum, value, blockSize);
      }
      float blockScale = 1.0f;
      if (isFp8(type)) {
        const float largest = largestMagnitude(sum, blockSize);
        // Conversion would saturate an infinity; the gradient norm must still see it.
        if (!std::isfinite(largest))
          std::fill_n(sum, blockSize, std::numeric_limits<float>::quiet_NaN());
        blockScale = scaleOf(largest, type);
        ops_.scale(sum, blockScale, blockSize);
      }
      encode(type, sum, static_cast<std::byte *>(destination) + static_cast<size_t>(b * blockSize) * sizeOf(type), blockSize);
      if (scale)
        scale[b] = blockScale;
    }
  });
}

void CpuDevice::decode(Type type, const void *source, float *destination, int64_t count) const {
  if (!isFloat(type))
    failInternal("a tensor of {} was to be read as floats", nameOf(type));
  ops_.decode[static_cast<size_t>(type)](source, destination, count);
}

void CpuDevice::encode(Type type, const float *source, void *destination, int64_t count) const {
  if (!isFloat(type))
    failInternal("floats were to be written to a tensor of {}", nameOf(type));
  ops_.encode[static_cast<size_t>(type)](source, destination, count);
}

float CpuDevice::largestMagnitude(const float *values, int64_t count) const {
  return floatOf(ops_.largestMagnitude(values, count));
}

void CpuDevice::parallel(int64_t count, const std::function<void(int64_t)> &body) {
  pool_.run(count, [&](int64_t i, unsigned) { body(i); });
}

} // namespace msamp::runtime::cpu

extern "C" msamp::runtime::Device *msampCreateDevice(const msamp::runtime::DeviceOptions *options) {
  unsigned threads = options->threads;
  return new msamp::runtime::cpu::CpuDevice(threads > 0 ? threads : 1);
}
