// A CPU device whose lanes really are queues: calls are kept until someone needs results, and then carried out in the order that
// is worst for a caller who forgot to wait.
#ifndef MSAMP_TESTS_LANEDEVICE_H
#define MSAMP_TESTS_LANEDEVICE_H

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <stdexcept>
#include <vector>

#include "runtime/comm/Communicator.h"
#include "runtime/device/Device.h"

namespace msamp::test {

class LaneDevice final : public runtime::Device {
public:
  using Lane = runtime::Lane;
  using Tensor = runtime::Tensor;
  using StepTables = runtime::StepTables;

  // Lanes in the order in which they get ahead of each other.
  using Order = std::array<Lane, runtime::lanes>;
  LaneDevice(runtime::Device &inner, Order order) : inner_(inner), order_(order) {}

  bool hostMemory() const override { return false; } // inputs have a way to go

  void onLane(Lane lane) override { lane_ = lane; }
  runtime::Moment moment() override {
    moments_.push_back(false);
    const auto taken = static_cast<runtime::Moment>(moments_.size() - 1);
    enqueue(lane_, [this, taken] { moments_[taken] = true; });
    return taken;
  }
  void take(runtime::Moment named) override { named_[named] = moment(); }
  void waitFor(runtime::Moment moment) override {
    if (moment < runtime::moments) { // one that has a name
      const auto taken = named_.find(moment);
      if (taken == named_.end())
        return;
      moment = taken->second;
    }
    queue(lane_).push_back({{}, moment});
  }

  // For the communicator, whose calls are on Lane::Transfer.
  void enqueue(Lane lane, std::function<void()> call) { queue(lane).push_back({std::move(call), 0}); }

  void flush() {
    for (bool more = true; more;) {
      more = false;
      for (Lane lane : order_)
        if (runOne(queue(lane))) {
          ++done_[static_cast<size_t>(lane)];
          more = true;
          break;
        }
    }
    for (const auto &rest : queues_)
      if (!rest.empty())
        throw std::runtime_error("lanes wait for each other");
  }

  std::string description() const override { return inner_.description(); }
  unsigned threads() const override { return inner_.threads(); }
  void *allocate(size_t bytes) override { return inner_.allocate(bytes); }
  void release(void *data, size_t bytes) override {
    flush();
    inner_.release(data, bytes);
  }
  void upload(void *to, const void *from, size_t bytes) override {
    if (lane_ != Lane::Compute) {
      enqueue(lane_, [=, this] { inner_.upload(to, from, bytes); });
      return;
    }
    flush();
    inner_.upload(to, from, bytes);
  }
  void download(void *to, const void *from, size_t bytes) override {
    flush();
    inner_.download(to, from, bytes);
  }
  void copyBytes(void *to, const void *from, size_t bytes) override {
    enqueue(lane_, [=, this] { inner_.copyBytes(to, from, bytes); });
  }
  size_t chooseTarget(std::span<const std::string> targets) const override { return inner_.chooseTarget(targets); }
  void loadKernels(std::span<const std::string> files, std::span<const runtime::KernelRef> kernels) override {
    inner_.loadKernels(files, kernels);
  }
  unsigned loadUpdateKernel(const runtime::UpdateKernelRef &kernel) override { return inner_.loadUpdateKernel(kernel); }
  void bindTables(const StepTables &tables) override { inner_.bindTables(tables); }
  void sequence(const std::string &, const std::function<void()> &steps) override {
    steps();
    if (lane_ != Lane::Compute)
      throw std::runtime_error("a sequence ended on another lane");
    // A recording ends with all lanes joined: Compute cannot come to its end before the others have.
    enqueue(Lane::Compute,
            [this, transfers = queue(Lane::Transfer).size(), reductions = queue(Lane::Reduce).size(), done = done_] {
              if (done_[static_cast<size_t>(Lane::Transfer)] < done[static_cast<size_t>(Lane::Transfer)] + transfers ||
                  done_[static_cast<size_t>(Lane::Reduce)] < done[static_cast<size_t>(Lane::Reduce)] + reductions)
                throw std::runtime_error("a sequence ended before all of its lanes had been waited for");
            });
  }

  void launch(unsigned kernel, std::span<void *const> args) override {
    compute([this, kernel, args = std::vector(args.begin(), args.end())] { inner_.launch(kernel, args); });
  }
  void update(unsigned kernel, const StepTables &tables, const runtime::UpdateArgs &args) override {
    compute([=, this] { inner_.update(kernel, tables, args); });
  }
  void noteLoss(const StepTables &tables, const Tensor &loss, runtime::LossUse use) override {
    compute([=, this] { inner_.noteLoss(tables, loss, use); });
  }
  void gradSquares(const StepTables &tables, std::span<const runtime::GradRange> ranges) override {
    compute([this, tables, ranges = std::vector(ranges.begin(), ranges.end())] { inner_.gradSquares(tables, ranges); });
  }
  void finishNorm(const StepTables &tables, unsigned ranks, double microBatches) override {
    compute([=, this] { inner_.finishNorm(tables, ranks, microBatches); });
  }
  void planScales(const StepTables &tables, const runtime::ClassRule &rule) override {
    compute([=, this] { inner_.planScales(tables, rule); });
  }
  void commitScales(const StepTables &tables, const runtime::ClassRule &rule) override {
    compute([=, this] { inner_.commitScales(tables, rule); });
  }
  void calibrate(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) override {
    scalars(&Device::calibrate, tables, values, sites);
  }
  void recordAmax(const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> sites) override {
    scalars(&Device::recordAmax, tables, values, sites);
  }
  void storeGradScales(const StepTables &tables, std::span<const float *const> values,
      std::span<const uint32_t> parameters) override {
    scalars(&Device::storeGradScales, tables, values, parameters);
  }
  void pushSites(const StepTables &tables) override {
    compute([=, this] { inner_.pushSites(tables); });
  }
  void spreadScales(const float *byParameter, const int32_t *owner, float *byBlock, int64_t blocks) override {
    enqueue(lane_, [=, this] { inner_.spreadScales(byParameter, owner, byBlock, blocks); });
  }
  void matmul(const runtime::MatMulArgs &args) override {
    compute([=, this] { inner_.matmul(args); });
  }
  void attention(const runtime::AttentionArgs &args) override {
    compute([=, this] { inner_.attention(args); });
  }
  void attentionGrad(const runtime::AttentionArgs &args) override {
    compute([=, this] { inner_.attentionGrad(args); });
  }
  void conv(const runtime::ConvArgs &args) override {
    compute([=, this] { inner_.conv(args); });
  }
  void pool(const runtime::PoolArgs &args) override {
    compute([=, this] { inner_.pool(args); });
  }
  void scatterAdd(const Tensor &updates, const Tensor &indices, const Tensor &table) override {
    compute([=, this] { inner_.scatterAdd(updates, indices, table); });
  }
  void gather(const Tensor &table, const Tensor &indices, unsigned axis, const Tensor &result) override {
    compute([=, this] { inner_.gather(table, indices, axis, result); });
  }
  void copy(const Tensor &source, const Tensor &destination) override {
    compute([=, this] { inner_.copy(source, destination); });
  }
  void fill(const Tensor &destination, double value) override {
    compute([=, this] { inner_.fill(destination, value); });
  }
  void accumulate(const Tensor &value, const Tensor &sum, bool first) override {
    compute([=, this] { inner_.accumulate(value, sum, first); });
  }
  void reduceBlocks(std::span<const runtime::BlockSpan> sources, void *destination, runtime::Type type, float *scale,
      int64_t blocks) override {
    enqueue(lane_, [=, this, sources = std::vector(sources.begin(), sources.end())] {
      inner_.reduceBlocks(sources, destination, type, scale, blocks);
    });
  }
  void decode(runtime::Type type, const void *source, float *destination, int64_t count) const override {
    inner_.decode(type, source, destination, count);
  }
  void encode(runtime::Type type, const float *source, void *destination, int64_t count) const override {
    inner_.encode(type, source, destination, count);
  }
  float largestMagnitude(const float *values, int64_t count) const override { return inner_.largestMagnitude(values, count); }
  void parallel(int64_t count, const std::function<void(int64_t)> &body) override { inner_.parallel(count, body); }

private:
  struct Entry {
    std::function<void()> call; // none: waits for the moment
    runtime::Moment moment;
  };
  using Queue = std::deque<Entry>;

  Queue &queue(Lane lane) { return queues_[static_cast<size_t>(lane)]; }
  void compute(std::function<void()> call) { enqueue(Lane::Compute, std::move(call)); }
  template <class Method>
  void scalars(Method method, const StepTables &tables, std::span<const float *const> values, std::span<const uint32_t> entries) {
    compute([this, method, tables, values = std::vector(values.begin(), values.end()),
                entries = std::vector(entries.begin(), entries.end())] { (inner_.*method)(tables, values, entries); });
  }
  bool runOne(Queue &queue) {
    if (queue.empty() || (!queue.front().call && !moments_[queue.front().moment]))
      return false;
    const Entry entry = std::move(queue.front());
    queue.pop_front();
    if (entry.call)
      entry.call();
    return true;
  }

  runtime::Device &inner_;
  Order order_;
  Lane lane_ = Lane::Compute;
  std::array<Queue, runtime::lanes> queues_;
  std::array<size_t, runtime::lanes> done_{};                       // calls of each, since the start
  std::vector<bool> moments_ = std::vector<bool>(runtime::moments); // names, and then one after the other
  std::map<runtime::Moment, runtime::Moment> named_;
};

// Calls on a device's memory, queued on its Lane::Transfer.
class LaneCommunicator final : public runtime::Communicator {
public:
  LaneCommunicator(runtime::Communicator &inner, LaneDevice &device) : inner_(inner), device_(device) {}
  unsigned rank() const override { return inner_.rank(); }
  unsigned size() const override { return inner_.size(); }
  void allToAll(const void *send, std::span<const size_t> sendOffsets, std::span<const size_t> sendBytes, void *receive,
      std::span<const size_t> receiveOffsets, std::span<const size_t> receiveBytes) override {
    auto own = [](std::span<const size_t> values) { return std::vector(values.begin(), values.end()); };
    transfer([this, send, receive, so = own(sendOffsets), sb = own(sendBytes), ro = own(receiveOffsets), rb = own(receiveBytes)] {
      inner_.allToAll(send, so, sb, receive, ro, rb);
    });
  }
  void allGather(void *data, std::span<const size_t> offsets, std::span<const size_t> bytes) override {
    transfer([this, data, o = std::vector(offsets.begin(), offsets.end()), b = std::vector(bytes.begin(), bytes.end())] {
      inner_.allGather(data, o, b);
    });
  }
  void barrier() override {
    device_.flush();
    inner_.barrier();
  }
  void allReduceMax(std::span<float> values) override {
    transfer([this, values] { inner_.allReduceMax(values); });
  }
  void allReduceSum(std::span<double> values) override {
    transfer([this, values] { inner_.allReduceSum(values); });
  }

private:
  void transfer(std::function<void()> call) { device_.enqueue(runtime::Lane::Transfer, std::move(call)); }

  runtime::Communicator &inner_;
  LaneDevice &device_;
};

} // namespace msamp::test

#endif
