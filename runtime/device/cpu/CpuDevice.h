// The CPU as a device: kernels from a shared library, products by oneDNN, the rest here.
#ifndef MSAMP_RUNTIME_DEVICE_CPU_CPUDEVICE_H
#define MSAMP_RUNTIME_DEVICE_CPU_CPUDEVICE_H

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/Device.h"
#include "runtime/device/cpu/ThreadPool.h"
#include "runtime/device/cpu/VectorOps.h"

namespace msamp::runtime::cpu {

// Memory of one thread for tiles; grows to what the largest step needs, whose tiles are bounded.
class Scratch {
public:
  ~Scratch();
  // `floats` values, aligned to 64 bytes; valid until the next call.
  float *get(size_t floats);

private:
  float *data_ = nullptr;
  size_t capacity_ = 0;
};

class Convolutions;

class CpuDevice final : public Device {
public:
  explicit CpuDevice(unsigned threads);
  ~CpuDevice() override;

  std::string description() const override;
  unsigned threads() const override { return pool_.threads(); }
  void *allocate(size_t bytes) override;
  void release(void *data, size_t bytes) override;

  void upload(void *destination, const void *source, size_t bytes) override;
  void download(void *destination, const void *source, size_t bytes) override;
  void copyBytes(void *destination, const void *source, size_t bytes) override;

  size_t chooseTarget(std::span<const std::string> targets) const override;
  void loadKernels(std::span<const std::string> files, std::span<const KernelRef> kernels) override;
  void launch(unsigned kernel, std::span<void *const> args) override;
  unsigned loadUpdateKernel(const UpdateKernelRef &kernel) override;
  void update(unsigned kernel, const StepTables &tables, const UpdateArgs &args) override;

  void noteLoss(const StepTables &tables, const Tensor &loss, LossUse use) override;
  void gradSquares(const StepTables &tables, std::span<const GradRange> ranges) override;
  void finishNorm(const StepTables &tables, unsigned ranks, double microBatches) override;
  void planScales(const StepTables &tables, const ClassRule &rule) override;
  void commitScales(const StepTables &tables, const ClassRule &rule) override;
  void calibrate(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) override;
  void recordAmax(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) override;
  void storeGradScales(const StepTables &tables, std::span<const float *const> values,
      std::span<const uint32_t> parameters) override;
  void pushSites(const StepTables &tables) override;
  void spreadScales(const float *byParameter, const int32_t *owner, float *byBlock, int64_t blocks) override;

  void matmul(const MatMulArgs &args) override;
  void attention(const AttentionArgs &args) override;
  void attentionGrad(const AttentionArgs &args) override;
  void conv(const ConvArgs &args) override;
  void pool(const PoolArgs &args) override;
  void scatterAdd(const Tensor &updates, const Tensor &indices, const Tensor &table) override;
  void gather(const Tensor &table, const Tensor &indices, unsigned axis, const Tensor &result) override;
  void copy(const Tensor &source, const Tensor &destination) override;
  void fill(const Tensor &destination, double value) override;
  void accumulate(const Tensor &value, const Tensor &sum, bool first) override;

  void reduceBlocks(std::span<const BlockSpan> sources, void *destination, Type type, float *scale, int64_t blocks) override;
  void decode(Type type, const void *source, float *destination, int64_t count) const override;
  void encode(Type type, const float *source, void *destination, int64_t count) const override;
  float largestMagnitude(const float *values, int64_t count) const override;
  void parallel(int64_t count, const std::function<void(int64_t)> &body) override;

private:
  using ChunkFunction = void (*)(void *const *, int64_t, int64_t);
  using FinishFunction = void (*)(void *const *);
  struct Kernel {
    std::string symbol;
    ChunkFunction run = nullptr;
    FinishFunction finish = nullptr;
    int64_t chunks = 1;
  };
  void *symbol(const std::string &name) const;
  // Partial sums in FP64 in a fixed order.
  double sumOfSquares(const BlockSpan &values, int64_t blocks);

  ThreadPool pool_;
  const VectorOps &ops_;
  std::vector<Scratch> scratch_; // one a thread
  std::string libraryPath_;
  void *library_ = nullptr;
  std::vector<Kernel> kernels_;
  std::vector<ChunkFunction> updates_;
  std::unique_ptr<Convolutions> convolutions_; // from the first one on
};

} // namespace msamp::runtime::cpu

#endif
