// Threads that run the iterations of one loop at a time. Which thread runs which iteration is open, so the work must not
// depend on it.
#ifndef MSAMP_RUNTIME_DEVICE_CPU_THREADPOOL_H
#define MSAMP_RUNTIME_DEVICE_CPU_THREADPOOL_H

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <type_traits>
#include <vector>

namespace msamp::runtime::cpu {

class ThreadPool {
public:
  // `prepareThread` is called once on each thread before its first iteration.
  explicit ThreadPool(unsigned threads, void (*prepareThread)() = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  // body(i, thread) for i in [0, count); `thread` in [0, threads()) for scratch memory. The first exception is thrown on
  // when all are done. Within a body it runs on the calling thread alone.
  template <class Body> void run(int64_t count, Body &&body) {
    using Plain = std::remove_reference_t<Body>;
    run(count, [](void *context, int64_t i, unsigned thread) { (*static_cast<Plain *>(context))(i, thread); },
        const_cast<void *>(static_cast<const void *>(&body)));
  }

private:
  using Function = void (*)(void *, int64_t, unsigned);
  void run(int64_t count, Function function, void *context);
  void work(unsigned thread);
  void drain(unsigned thread);

  void (*prepareThread_)() = nullptr;
  std::vector<std::thread> workers_;
  Function function_ = nullptr;
  void *context_ = nullptr;
  int64_t count_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  alignas(64) std::atomic<uint32_t> running_{0};
  std::atomic<bool> stop_{false};
  std::mutex errorMutex_;
  std::exception_ptr error_;
};

} // namespace msamp::runtime::cpu

#endif
