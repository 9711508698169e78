#include "runtime/device/cpu/CpuDevice.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <sys/mman.h>

#include "runtime/core/Error.h"
#include "runtime/core/Fp8.h"
#include "runtime/core/Scale.h"

namespace msamp::runtime::cpu {

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

CpuDevice::CpuDevice(unsigned threads) : pool_(threads), ops_(vectorOps()), scratch_(threads) {}

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

void CpuDevice::loadKernels(const std::string &library, std::span<const KernelRef> kernels) {
  libraryPath_ = library;
  library_ = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) {
    const char *reason = ::dlerror();
    failData("cannot load the kernels {}: {}", library, reason ? reason : "unknown reason");
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

unsigned CpuDevice::loadUpdateKernel(const std::string &name) {
  updates_.push_back(reinterpret_cast<ChunkFunction>(symbol(name)));
  return static_cast<unsigned>(updates_.size() - 1);
}

void CpuDevice::update(unsigned index, const UpdateArgs &args, std::span<const UpdateSegment> segments,
    const UpdateHyper &hyper, std::span<float> amax) {
  // Slices of blocks of one parameter, small enough for their scales to be spread out on the stack.
  constexpr int64_t sliceBlocks = 64;
  struct Slice {
    size_t segment;
    int64_t block, blocks;
  };
  std::vector<Slice> slices;
  for (size_t s = 0; s < segments.size(); ++s)
    for (int64_t b = 0; b < segments[s].blocks; b += sliceBlocks)
      slices.push_back({s, segments[s].firstBlock + b, std::min(sliceBlocks, segments[s].blocks - b)});
  std::vector<std::atomic<uint32_t>> largest(segments.size());
  ChunkFunction run = updates_.at(index);
  auto at = [](void *base, Type type, int64_t block) -> void * {
    return base ? static_cast<std::byte *>(base) + static_cast<size_t>(block * blockSize) * sizeOf(type) : nullptr;
  };
  pool_.run(static_cast<int64_t>(slices.size()), [&](int64_t i, unsigned) {
    const Slice &slice = slices[static_cast<size_t>(i)];
    const UpdateSegment &segment = segments[slice.segment];
    float gradScale[sliceBlocks], weightOld[sliceBlocks], weightNew[sliceBlocks], masterOld[sliceBlocks], masterNew[sliceBlocks];
    float blockAmax[sliceBlocks] = {};
    auto spread = [&](float *to, float value) { std::fill_n(to, slice.blocks, value); };
    if (args.gradBlockScale)
      std::copy_n(args.gradBlockScale + slice.block, slice.blocks, gradScale);
    else
      spread(gradScale, segment.gradScale);
    spread(weightOld, segment.weightOldScale);
    spread(weightNew, segment.weightNewScale);
    spread(masterOld, segment.masterOldScale);
    spread(masterNew, segment.masterNewScale);
    std::array<float, 16> values = hyper;
    void *const pointers[14] = {at(args.weight, args.weightType, slice.block), at(args.master, args.masterType, slice.block),
        at(args.grad, args.gradType, slice.block), gradScale, at(args.m, args.mType, slice.block),
        args.mBlockScale ? args.mBlockScale + slice.block : nullptr, at(args.v, args.vType, slice.block),
        args.vBlockScale ? args.vBlockScale + slice.block : nullptr, args.weightScaled ? weightOld : nullptr,
        args.weightScaled ? weightNew : nullptr, args.masterScaled ? masterOld : nullptr,
        args.masterScaled ? masterNew : nullptr, blockAmax, values.data()};
    run(pointers, 0, slice.blocks);
    // Bits of magnitudes are ordered as the magnitudes are, NaN on top.
    uint32_t sliceLargest = ops_.largestMagnitude(blockAmax, slice.blocks);
    std::atomic<uint32_t> &whole = largest[slice.segment];
    for (uint32_t seen = whole.load(); seen < sliceLargest && !whole.compare_exchange_weak(seen, sliceLargest);)
      ;
  });
  for (size_t s = 0; s < segments.size(); ++s)
    amax[s] = floatOf(largest[s].load());
}

double CpuDevice::sumOfSquares(const BlockSpan &values, int64_t blocks) {
  constexpr int64_t runBlocks = 64;
  const int64_t runs = (blocks + runBlocks - 1) / runBlocks;
  std::vector<double> partial(static_cast<size_t>(runs));
  const auto *data = static_cast<const std::byte *>(values.data);
  const size_t stride = blockSize * sizeOf(values.type);
  pool_.run(runs, [&](int64_t run, unsigned) {
    double sum = 0;
    for (int64_t b = run * runBlocks; b < std::min(blocks, (run + 1) * runBlocks); ++b) {
      float block[blockSize];
      decode(values.type, data + static_cast<size_t>(b) * stride, block, blockSize);
      double squares = ops_.sumOfSquares(block, blockSize);
      const double inverse = values.scale ? 1.0 / static_cast<double>(values.scale[b]) : 1.0;
      sum += squares * inverse * inverse;
    }
    partial[static_cast<size_t>(run)] = sum;
  });
  double sum = 0;
  for (double part : partial)
    sum += part;
  return sum;
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
