// An NVIDIA GPU: steps go to one stream, exchanges and inputs to others beside it; what repeats from step to step is
// captured into CUDA graphs.
#ifndef MSAMP_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define MSAMP_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/Device.h"
#include "runtime/device/cpu/ThreadPool.h"
#include "runtime/device/cuda/Attention.h"
#include "runtime/device/cuda/Convolution.h"
#include "runtime/device/cuda/MatMul.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/Scratch.h"

namespace msamp::runtime::cuda {

// The device of this process, its context current on the calling thread, and a stream.
class Context {
public:
  explicit Context(unsigned index);
  ~Context();
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  CUdevice device = 0;
  std::array<CUstream, runtime::lanes> lanes{};
  CUstream stream = nullptr; // of Lane::Compute
  std::string name;
  int capability = 0;     // 90: sm_90
  unsigned processors = 1; // multiprocessors
};

class CudaDevice final : public Device {
public:
  explicit CudaDevice(const DeviceOptions &options);
  ~CudaDevice() override;

  std::string description() const override;
  unsigned threads() const override { return pool_.threads(); }
  bool hostMemory() const override { return false; }
  void *allocate(size_t bytes) override;
  void release(void *data, size_t bytes) override;
  void *allocateStaging(size_t bytes) override;
  void releaseStaging(void *data, size_t bytes) override;
  void upload(void *destination, const void *source, size_t bytes) override;
  void download(void *destination, const void *source, size_t bytes) override;
  void copyBytes(void *destination, const void *source, size_t bytes) override;

  size_t chooseTarget(std::span<const std::string> targets) const override;
  void loadKernels(std::span<const std::string> files, std::span<const KernelRef> kernels) override;
  void launch(unsigned kernel, std::span<void *const> args) override;
  unsigned loadUpdateKernel(const UpdateKernelRef &kernel) override;
  void update(unsigned kernel, const StepTables &tables, const UpdateArgs &args) override;
  void sequence(const std::string &key, const std::function<void()> &steps) override;
  void forgetSequences() override;

  void bindTables(const StepTables &tables) override;
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

  void *stream(Lane lane) const override { return context_.lanes[static_cast<size_t>(lane)]; }
  void onLane(Lane lane) override { lane_ = context_.lanes[static_cast<size_t>(lane)]; }
  Moment moment() override;
  void take(Moment moment) override;
  void waitFor(Moment moment) override;
  void matmul(const MatMulArgs &args) override { matmul_.run(args); }
  void attention(const AttentionArgs &args) override { attention_.forward(args); }
  void attentionGrad(const AttentionArgs &args) override { attention_.backward(args); }
  void conv(const ConvArgs &args) override { convolution_.run(args); }
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

  void mark(unsigned index) override;
  std::vector<double> marks(unsigned count) override;
  DeviceMemory memory() const override;

private:
  struct Entry {
    CUfunction function = nullptr;
    KernelEntry shape;
  };
  struct Recording {
    bool ran = false;
    CUgraphExec graph = nullptr;
  };
  void awaitUsers();
  Entry entryOf(const KernelEntry &entry);
  // A kernel of our own by name, one thread an element over a grid that is large enough.
  template <class... Args> void runOver(Module &module, const char *kernel, int64_t count, const Args &...args);
  void scalars(const char *kernel, const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> entries);
  const int64_t *constantOf(int64_t value);

  Context context_;
  CUstream lane_ = context_.stream;
  std::array<CUevent, moments> moments_{};
  Moment nextMoment_ = 0;
  cpu::ThreadPool pool_;
  Scratch scratch_;
  Module control_, tensors_;
  MatMul matmul_;
  Cudnn cudnn_;
  Attention attention_;
  Module windows_; // loaded when it is first needed
  Convolution convolution_;
  Module kernelModule_;
  std::vector<std::vector<Entry>> kernels_;
  std::vector<std::pair<Entry, unsigned>> updates_; // and blocks a CTA
  std::map<std::string, Recording> recordings_;
  std::map<int64_t, const int64_t *> constants_; // integers in device memory, for kernels that take pointers alone
  std::vector<CUevent> events_;
  uint64_t allocated_ = 0, peak_ = 0;
};

} // namespace msamp::runtime::cuda

#endif
