// What the executor asks of a device: memory, and the kinds of steps that are not collectives.
#ifndef MSAMP_RUNTIME_DEVICE_DEVICE_H
#define MSAMP_RUNTIME_DEVICE_DEVICE_H

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/Types.h"
#include "runtime/device/StepRules.h"
#include "runtime/device/StepState.h"

namespace msamp::runtime {

inline constexpr unsigned maxRank = 8;

// A strided tensor in device memory. Strides are in elements.
struct Tensor {
  std::byte *data = nullptr;
  Type type = Type::None;
  unsigned rank = 0;
  int64_t shape[maxRank] = {};
  int64_t strides[maxRank] = {};

  int64_t elements() const {
    int64_t n = 1;
    for (unsigned i = 0; i < rank; ++i)
      n *= shape[i];
    return n;
  }
  bool contiguous() const {
    int64_t expected = 1;
    for (unsigned i = rank; i-- > 0;) {
      if (shape[i] != 1 && strides[i] != expected)
        return false;
      expected *= shape[i];
    }
    return true;
  }
};

// An entry point of a GPU kernel.
struct KernelEntry {
  std::string symbol;
  uint32_t gridX = 1, gridY = 1, block = 1, sharedBytes = 0;
};

struct KernelRef {
  std::string symbol;
  // On the CPU: chunks of work, and whether a second function combines them.
  uint32_t chunks = 1;
  bool finish = false;
  std::vector<KernelEntry> entries; // on a GPU: run one after the other
};

struct UpdateKernelRef {
  KernelEntry entry; // on a GPU the runtime chooses the grid
  uint32_t blocksPerCta = 1;
};

// Values along the summed dimension that an entry of a scale of rank 2 is for.
inline constexpr int64_t scaleBlock = 128;

struct MatMulArgs {
  Tensor a, b, c;
  bool transposeA = false, transposeB = false;
  // c = a b / (scaleA scaleB). A scale is one value; or one a row (A) or column (B) of c; or, where one of both is of rank 2, one
  // or a matrix of [rows or columns of c, summed dimension / 128], with an entry for each 1 or 128 of the former: of both
  // operands each block is divided by its own before they are multiplied. The last blocks may be partial. FP8 matrices only.
  bool scaled = false;
  Tensor scaleA, scaleB;
  bool scaledByBlocks() const { return scaled && (scaleA.rank == 2 || scaleB.rank == 2); }
  // Rows (columns) of c that an entry of a scale of rank 2 is for.
  static int64_t scaleExtent(const Tensor &scale, int64_t extent) { return scale.shape[0] == extent ? 1 : scaleBlock; }
  bool hasAddend = false; // c = (that) + addend, which has c's shape and may be c itself
  Tensor addend;
  bool hasBias = false;   // c = (that) + bias, a value a column
  Tensor bias;
  const float *scaleOut = nullptr; // in device memory: c is stored times this value; null: 1
  float *amaxOut = nullptr;        // in device memory: becomes the largest magnitude of the result, before scaleOut and rounding
};

struct AttentionArgs {
  Tensor q, k, v, o, lse; // [B,T,H,D] [B,S,G,D] [B,S,G,E] [B,T,H,E] [B,H,T]
  bool hasBias = false;
  Tensor bias;            // [B or 1, H or 1, T, S]
  double scale = 1;
  bool causal = false;
  Tensor dO, dQ, dK, dV;  // gradients only
};

// Windows over an image; one entry a dimension between the first and the last.
inline constexpr unsigned maxWindowRank = 3;
struct Window {
  unsigned rank = 0;
  int64_t size[maxWindowRank] = {}, strides[maxWindowRank] = {}, low[maxWindowRank] = {}, high[maxWindowRank] = {},
          dilations[maxWindowRank] = {};

  int64_t taps() const {
    int64_t n = 1;
    for (unsigned d = 0; d < rank; ++d)
      n *= size[d];
    return n;
  }
};

// Which of image, filter and windows is computed from the two others.
enum class ConvPass { Forward, ImageGradient, FilterGradient };

// All row-major: x [N, positions.., C], filter [O, size.., C / groups], y [N, windows.., O]; or their gradients. FP32 sums.
struct ConvArgs {
  ConvPass pass = ConvPass::Forward;
  Tensor x, filter, y;
  Window window;
  int64_t groups = 1;
};

// Row-major: x [N, positions.., C], y [N, windows.., C], tap (U8; max alone) of y's shape; or gradients of x and y.
struct PoolArgs {
  bool largest = true;        // else the mean
  bool gradient = false;      // x from y (and tap)
  bool countPadding = false;  // of the mean: over taps on the image and its padding
  Tensor x, y, tap;
  Window window;
};

// State of consecutive blocks of a class for an optimizer kernel. Pointers are at the first block; null where the class has
// no such array.
struct UpdateArgs {
  void *weight = nullptr, *master = nullptr;
  Type weightType = Type::None, masterType = Type::None;
  bool weightScaled = false, masterScaled = false;
  void *grad = nullptr;
  Type gradType = Type::None;
  const float *gradBlockScale = nullptr;
  void *m = nullptr;
  Type mType = Type::None;
  float *mBlockScale = nullptr;
  void *v = nullptr;
  Type vType = Type::None;
  float *vBlockScale = nullptr;
  const int32_t *owner = nullptr; // parameter of each block
  int64_t blocks = 0;
};

// Gradients of consecutive blocks of a class: value = stored / scale, of the block where there is one, else of its parameter.
struct GradRange {
  const void *data = nullptr;
  Type type = Type::None;
  const float *blockScale = nullptr;
  const int32_t *owner = nullptr;
  int64_t blocks = 0;
};

// Values in blocks of 128 that share a scale: stored = value * scale. No scales: 1.
struct BlockSpan {
  const void *data = nullptr;
  Type type = Type::None;
  const float *scale = nullptr;
};

// Bytes that this process holds on a device with memory of its own; 0 where it has none.
struct DeviceMemory {
  uint64_t peak = 0;      // most that `allocate` had given out at once
  uint64_t libraries = 0; // workspaces of libraries, beside that
  uint64_t context = 0;   // all else: code, the driver's own
  uint64_t total = 0;     // of the device
};

// Queues of a device that run beside each other where it can.
enum class Lane : uint8_t { Compute, Transfer, Reduce, Input };
constexpr size_t lanes = 4;

// A point in a lane's work, for another lane to wait for. Good until 255 more have been taken, but for those that have
// a name: until the same one is taken again. Waiting for one that was never taken is waiting for nothing.
using Moment = uint32_t;
constexpr Moment inputsArrived = 256, inputsTaken = 257, moments = 258;

// Steps are carried out in the order of the calls; on a GPU a call only enqueues. `upload` and `download` keep that order, and
// only the latter waits. Unless said otherwise pointers are to device memory.
class Device {
public:
  virtual ~Device() = default;
  virtual std::string description() const = 0;
  virtual unsigned threads() const = 0; // of the host, for `parallel`
  // Device memory is the host's too: it may be read and written in place.
  virtual bool hostMemory() const { return true; }
  // What a lane's calls are enqueued to (a CUstream), for collectives on the same memory; null where a call is done when it
  // returns.
  virtual void *stream(Lane) const { return nullptr; }
  // From here on copyBytes, uploads from staging memory, spreadScales, reduceBlocks and marks belong to this lane. All
  // else is always Compute's.
  virtual void onLane(Lane) {}
  virtual Moment moment() { return 0; } // of the present lane: all that it was asked for so far is done
  virtual void take(Moment) {}          // one that has a name
  virtual void waitFor(Moment) {}       // what the present lane is asked for from here on comes after

  // Zeroed, aligned to 64 bytes at least. Error 75 if there is not enough.
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *data, size_t bytes) = 0;
  // Host memory that is quick to upload from.
  virtual void *allocateStaging(size_t bytes) { return allocate(bytes); }
  virtual void releaseStaging(void *data, size_t bytes) { release(data, bytes); }
  // The source may be used again on return, unless it is staging memory: then after the next download.
  virtual void upload(void *destination, const void *source, size_t bytes) = 0;
  virtual void download(void *destination, const void *source, size_t bytes) = 0;
  virtual void copyBytes(void *destination, const void *source, size_t bytes) = 0;

  // Which of a plan's targets this device runs best. Error 65 if it runs none of them.
  virtual size_t chooseTarget(std::span<const std::string> targets) const = 0;
  // Makes kernels callable by index, from that of the target's files (cpu.so; sm_90a.cubin, sm_90a.ptx) that fits best. Error 65
  // if none does, or a symbol is missing.
  virtual void loadKernels(std::span<const std::string> files, std::span<const KernelRef> kernels) = 0;
  virtual void launch(unsigned kernel, std::span<void *const> args) = 0;
  // Optimizer kernel from the file of loadKernels.
  virtual unsigned loadUpdateKernel(const UpdateKernelRef &kernel) = 0;
  // Updates the blocks with the tables' scales and StepState::kernelHyper; raises newAmax of their parameters to the largest
  // magnitude of the new weights.
  virtual void update(unsigned kernel, const StepTables &tables, const UpdateArgs &args) = 0;

  // Runs steps whose calls depend on `key` alone; a device may record them once and repeat the recording.
  virtual void sequence(const std::string &key, const std::function<void()> &steps) { steps(); }
  // Recordings keep what their calls use: they go before a communicator that is among it, which else waits for them for ever.
  virtual void forgetSequences() {}

  // The tables whose scales products will name, before the first of them.
  virtual void bindTables(const StepTables &) {}

  // Control of a step; the arithmetic is in StepRules.h. `values` are addresses of FP32 scalars, one an index.
  virtual void noteLoss(const StepTables &tables, const Tensor &loss, LossUse use) = 0;
  // state.sums: squares of all gradients, NaN if an amax on the way was not finite, partial sums in FP64 in a fixed order; and
  // the mean loss.
  virtual void gradSquares(const StepTables &tables, std::span<const GradRange> ranges) = 0;
  virtual void finishNorm(const StepTables &tables, unsigned ranks, double microBatches) = 0;
  virtual void planScales(const StepTables &tables, const ClassRule &rule) = 0;
  virtual void commitScales(const StepTables &tables, const ClassRule &rule) = 0;
  virtual void calibrate(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) = 0;
  virtual void recordAmax(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) = 0;
  virtual void storeGradScales(const StepTables &tables, std::span<const float *const> values,
      std::span<const uint32_t> parameters) = 0;
  virtual void pushSites(const StepTables &tables) = 0;
  // byBlock[b] = byParameter[owner[b]].
  virtual void spreadScales(const float *byParameter, const int32_t *owner, float *byBlock, int64_t blocks) = 0;

  virtual void matmul(const MatMulArgs &args) = 0;
  virtual void attention(const AttentionArgs &args) = 0;
  virtual void attentionGrad(const AttentionArgs &args) = 0;
  virtual void conv(const ConvArgs &args) = 0;
  virtual void pool(const PoolArgs &args) = 0;
  // table[indices[i]] += updates[i] in the order of i, from zero; FP32 sums.
  virtual void scatterAdd(const Tensor &updates, const Tensor &indices, const Tensor &table) = 0;
  // result = slices of the table along `axis`, at the indices; its shape is table[:axis] + indices + table[axis+1:].
  virtual void gather(const Tensor &table, const Tensor &indices, unsigned axis, const Tensor &result) = 0;
  virtual void copy(const Tensor &source, const Tensor &destination) = 0;
  virtual void fill(const Tensor &destination, double value) = 0;
  // sum = first ? value : sum + value.
  virtual void accumulate(const Tensor &value, const Tensor &sum, bool first) = 0;

  // destination = sum of the sources in their order, in FP32, rounded to `type`; an FP8 destination gets a new power-of-two
  // scale a block, any other 1.
  virtual void reduceBlocks(std::span<const BlockSpan> sources, void *destination, Type type, float *scale,
      int64_t blocks) = 0;

  // Conversion of a run of values in host memory, on the calling thread.
  virtual void decode(Type type, const void *source, float *destination, int64_t count) const = 0;
  virtual void encode(Type type, const float *source, void *destination, int64_t count) const = 0;
  // Largest magnitude among values in host memory; NaN or infinity if there is one.
  virtual float largestMagnitude(const float *values, int64_t count) const = 0;

  // Runs body(i) for i in [0, count) on the host's threads, in no particular order.
  virtual void parallel(int64_t count, const std::function<void(int64_t)> &body) = 0;

  // Moments for profiles: mark `index` is when all work asked for before it was done. What is here suits a device that is
  // done when a call returns; others note it on their own clock, and may do so within a recorded sequence.
  virtual void mark(unsigned index) {
    marks_.resize(std::max<size_t>(marks_.size(), index + 1));
    marks_[index] = std::chrono::steady_clock::now();
  }
  // Waits for marks 0 to count - 1 and returns the seconds from the first to each of them.
  virtual std::vector<double> marks(unsigned count) {
    std::vector<double> seconds;
    for (unsigned i = 0; i < count; ++i)
      seconds.push_back(std::chrono::duration<double>(marks_[i] - marks_[0]).count());
    return seconds;
  }
  virtual DeviceMemory memory() const { return {}; }

private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

struct DeviceOptions {
  std::string kind = "cpu"; // module lib/msamp_device_KIND.so beside the program's folder
  unsigned threads = 0;     // 0: the cores that this process may use, shared among the ranks
  unsigned ranksOnMachine = 1;
  unsigned index = 0;       // which of the machine's GPUs
  bool deterministic = true; // false: attention's gradients may add in any order where that is faster
  std::string cacheFolder;  // for what is found out at the first run (the fastest algorithms): the plan's folder
};

std::unique_ptr<Device> makeDevice(const DeviceOptions &options);

} // namespace msamp::runtime

#endif
