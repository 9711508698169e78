// Collectives of device memory over NCCL, on the device's stream; what hosts exchange goes over Gloo. Calls only
// enqueue. A thread watches: where NCCL reports an error, or a collective has begun and does not end in time, it is
// aborted, so that the stream runs on, and the next call fails.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/comm/Communicator.h"
#include "runtime/comm/nccl/Nccl.h"
#include "runtime/core/Error.h"
#include "runtime/core/Modules.h"
#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/Scratch.h"

extern "C" const char msampFatbinReduce[];

namespace msamp::runtime::nccl {

namespace {

using namespace std::chrono_literals;

std::unique_ptr<Communicator> makeHostCommunicator(const CommOptions &options) {
  CommOptions host = options;
  host.backend = "gloo";
  using Create = Communicator *(const CommOptions *);
  auto *create = reinterpret_cast<Create *>(moduleSymbol("msamp_comm_gloo", "msampCreateCommunicator"));
  return std::unique_ptr<Communicator>(create(&host));
}

// Memory of the host that the GPU writes: how many collectives have begun and ended.
struct Marks {
  volatile unsigned *began = nullptr, *ended = nullptr;
};

class NcclCommunicator final : public Communicator {
  static constexpr unsigned pairwise = 8;

public:
  explicit NcclCommunicator(const CommOptions &options)
      : options_(options), stream_(static_cast<CUstream>(options.stream)), host_(makeHostCommunicator(options)),
        scratch_(stream_), module_(msampFatbinReduce, "kernels/Reduce.cu") {
    if (!stream_)
      failInternal("NCCL without a device's stream");
    // NCCL refuses two ranks of a machine on one GPU; as ranks of different machines they talk over sockets.
    if (options.sharesGpu) {
      ::setenv("NCCL_HOSTID", fmt::format("msamp-rank-{}", options.rank).c_str(), 1);
      ::setenv("NCCL_NET", "Socket", 1);
      ::setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    }
    // The id of rank 0, to all.
    const size_t ranks = size();
    std::vector<ncclUniqueId> ids(ranks);
    if (rank() == 0)
      check(Nccl::get().ncclGetUniqueId(&ids[0]), "ncclGetUniqueId");
    std::vector<size_t> offsets(ranks), bytes(ranks, sizeof(ncclUniqueId));
    for (size_t r = 0; r < ranks; ++r)
      offsets[r] = r * sizeof(ncclUniqueId);
    host_->allGather(ids.data(), offsets, bytes);
    connect(ids[0]);
    void *counters = nullptr;
    MSAMP_CU(cuMemAllocHost, &counters, 256);
    std::memset(counters, 0, 256);
    marks_ = {static_cast<unsigned *>(counters), static_cast<unsigned *>(counters) + 32};
    watch_ = std::thread([this] { watch(); });
  }

  ~NcclCommunicator() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (watch_.joinable())
      watch_.join();
    // Destroying waits for what is enqueued; an aborted one is gone already.
    if (!failed_ && comm_)
      Nccl::get().ncclCommDestroy(comm_);
    cuda::Driver::get().cuStreamSynchronize(stream_);
    cuda::Driver::get().cuMemFreeHost(const_cast<unsigned *>(marks_.began));
  }

  unsigned rank() const override { return options_.rank; }
  unsigned size() const override { return options_.size; }

  void allToAll(const void *send, std::span<const size_t> sendOffsets, std::span<const size_t> sendBytes, void *receive,
                std::span<const size_t> receiveOffsets, std::span<const size_t> receiveBytes) override {
    const auto *from = static_cast<const std::byte *>(send);
    auto *to = static_cast<std::byte *>(receive);
    const unsigned me = rank();
    if (sendBytes[me] > 0 && from + sendOffsets[me] != to + receiveOffsets[me])
      MSAMP_CU(cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(to + receiveOffsets[me]),
               reinterpret_cast<CUdeviceptr>(from + sendOffsets[me]), sendBytes[me], stream_);
    group([&] {
      for (unsigned d = 1; d < size(); ++d) {
        const unsigned next = (me + d) % size(), previous = (me + size() - d) % size();
        if (sendBytes[next] > 0)
          check(Nccl::get().ncclSend(from + sendOffsets[next], sendBytes[next], ncclUint8, static_cast<int>(next),
                                     comm_, ncclStream()),
                "ncclSend");
        if (receiveBytes[previous] > 0)
          check(Nccl::get().ncclRecv(to + receiveOffsets[previous], receiveBytes[previous], ncclUint8,
                                     static_cast<int>(previous), comm_, ncclStream()),
                "ncclRecv");
      }
    });
  }

  // Within a machine pairs of sends go faster than NCCL's all-gather (two H200s: 326 against 266 GB/s); over many ranks its
  // rings win.
  void allGather(void *data, std::span<const size_t> offsets, std::span<const size_t> bytes) override {
    auto *base = static_cast<std::byte *>(data);
    const unsigned me = rank();
    if (size() <= pairwise) {
      std::vector<size_t> mine(size(), offsets[me]), myBytes(size(), bytes[me]);
      return allToAll(data, mine, myBytes, data, offsets, bytes);
    }
    bool even = true;
    for (unsigned r = 0; r < size(); ++r)
      even &= bytes[r] == bytes[0] && offsets[r] == offsets[0] + r * bytes[0];
    group([&] {
      if (even) {
        check(Nccl::get().ncclAllGather(base + offsets[me], base + offsets[0], bytes[0], ncclUint8, comm_, ncclStream()),
              "ncclAllGather");
        return;
      }
      for (unsigned r = 0; r < size(); ++r)
        if (bytes[r] > 0)
          check(Nccl::get().ncclBroadcast(base + offsets[r], base + offsets[r], bytes[r], ncclUint8,
                                          static_cast<int>(r), comm_, ncclStream()),
                "ncclBroadcast");
    });
  }

  void together(const std::function<void()> &calls) override { group(calls); }

  void barrier() override {
    MSAMP_CU(cuStreamSynchronize, stream_);
    throwIfFailed();
    host_->barrier();
  }

  void allReduceMax(std::span<float> values) override { reduce(values, "msampRanksMax"); }
  void allReduceSum(std::span<double> values) override { reduce(values, "msampRanksSum"); }
  void allGatherValue(double value, std::span<double> out) override {
    throwIfFailed();
    host_->allGatherValue(value, out);
  }

private:
  cudaStream_t ncclStream() const { return reinterpret_cast<cudaStream_t>(stream_); }

  void check(ncclResult_t result, const char *call) {
    if (result == ncclSuccess)
      return;
    throwIfFailed();
    failTryAgain("rank {}: {} failed: {}{}", rank(), call, Nccl::get().ncclGetErrorString(result), lastError());
  }

  // On a thread of its own, which is left behind where the peers do not come.
  void connect(const ncclUniqueId &id) {
    CUcontext context = nullptr;
    MSAMP_CU(cuCtxGetCurrent, &context);
    std::promise<std::pair<ncclResult_t, ncclComm_t>> promise;
    auto connected = promise.get_future();
    Nccl::get(); // or its error would be the thread's
    std::thread([id, context, ranks = static_cast<int>(size()), own = static_cast<int>(rank()),
                 promise = std::move(promise)]() mutable {
      ncclComm_t comm = nullptr;
      cuda::Driver::get().cuCtxSetCurrent(context);
      const ncclResult_t result = Nccl::get().ncclCommInitRank(&comm, ranks, id, own);
      promise.set_value({result, comm});
    }).detach();
    if (connected.wait_for(options_.timeout) != std::future_status::ready)
      failTryAgain("rank {}: NCCL did not connect the {} ranks within {} s; NCCL_DEBUG=INFO shows what it waits for, and "
                   "NCCL_SOCKET_IFNAME names the network interface to use",
                   rank(), size(), options_.timeout.count() / 1000);
    const auto [result, comm] = connected.get();
    check(result, "ncclCommInitRank");
    comm_ = comm;
  }

  std::string lastError() const {
    const char *text = Nccl::get().ncclGetLastError(nullptr);
    return text && *text ? std::string(" (") + text + ")" : std::string();
  }

  void throwIfFailed() {
    if (!failed_)
      return;
    std::lock_guard lock(mutex_);
    fail(Exit::TryAgain, "{}", failure_);
  }

  // One collective, or several together, between their marks.
  template <class Body>
  void group(Body &&body) {
    if (grouped_)
      return body();
    throwIfFailed();
    cuda::launch(stream_, module_.function("msampMark"), 1, 1, 1, 0, marks_.began);
    check(Nccl::get().ncclGroupStart(), "ncclGroupStart");
    grouped_ = true;
    try {
      body();
    } catch (...) {
      grouped_ = false;
      Nccl::get().ncclGroupEnd(); // or the next call would be within this group; what matters is what was thrown
      throw;
    }
    grouped_ = false;
    check(Nccl::get().ncclGroupEnd(), "ncclGroupEnd");
    cuda::launch(stream_, module_.function("msampMark"), 1, 1, 1, 0, marks_.ended);
  }

  // All values of all ranks, then a kernel that goes through them in the order of ranks.
  template <class T>
  void reduce(std::span<T> values, const char *kernel) {
    if (values.empty())
      return;
    const size_t bytes = values.size_bytes();
    std::byte *all = scratch_.get(bytes * size());
    MSAMP_CU(cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(all + rank() * bytes),
             reinterpret_cast<CUdeviceptr>(values.data()), bytes, stream_);
    std::vector<size_t> offsets(size()), counts(size(), bytes);
    for (size_t r = 0; r < size(); ++r)
      offsets[r] = r * bytes;
    allGather(all, offsets, counts);
    const auto count = static_cast<int64_t>(values.size());
    cuda::launch(stream_, module_.function(kernel), static_cast<unsigned>((count + 255) / 256), 1, 256, 0,
                 reinterpret_cast<const T *>(all), values.data(), count, size());
  }

  void watch() {
    unsigned seenBegan = 0, seenEnded = 0;
    auto since = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, 200ms, [this] { return stop_; })) {
      ncclResult_t error = ncclSuccess;
      const ncclResult_t asked = Nccl::get().ncclCommGetAsyncError(comm_, &error);
      const unsigned began = *marks_.began, ended = *marks_.ended;
      const auto now = std::chrono::steady_clock::now();
      if (began == ended || began != seenBegan || ended != seenEnded)
        since = now;
      seenBegan = began;
      seenEnded = ended;
      if (asked != ncclSuccess || (error != ncclSuccess && error != ncclInProgress))
        failure_ =
            fmt::format("rank {}: the connection to a peer is lost; look at what the other ranks say (NCCL: {}{})",
                        rank(), Nccl::get().ncclGetErrorString(error), lastError());
      else if (now - since > options_.timeout)
        failure_ = fmt::format("rank {}: a collective did not end within {} s: a peer hangs or its machine does",
                               rank(), options_.timeout.count() / 1000);
      else
        continue;
      failed_ = true;
      Nccl::get().ncclCommAbort(comm_);
      return;
    }
  }

  CommOptions options_;
  CUstream stream_;
  std::unique_ptr<Communicator> host_;
  cuda::Scratch scratch_;
  cuda::Module module_;
  ncclComm_t comm_ = nullptr;
  Marks marks_;
  bool grouped_ = false; // within a group's calls
  std::thread watch_;
  std::mutex mutex_; // of what follows, but the flag is read without it
  std::condition_variable wake_;
  bool stop_ = false;
  std::string failure_;
  std::atomic<bool> failed_ = false;
};

} // namespace

} // namespace msamp::runtime::nccl

extern "C" msamp::runtime::Communicator *msampCreateCommunicator(const msamp::runtime::CommOptions *options) {
  return new msamp::runtime::nccl::NcclCommunicator(*options);
}
