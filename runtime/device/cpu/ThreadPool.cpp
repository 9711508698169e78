#include "runtime/device/cpu/ThreadPool.h"

#include <chrono>

namespace msamp::runtime::cpu {

namespace {

thread_local bool inBody = false;
thread_local unsigned currentThread = 0;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

} // namespace

ThreadPool::ThreadPool(unsigned threads, void (*prepareThread)()) : prepareThread_(prepareThread) {
  for (unsigned i = 1; i < threads; ++i)
    workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread &worker : workers_)
    worker.join();
}

void ThreadPool::drain(unsigned thread) {
  thread_local bool prepared = false;
  if (!prepared && prepareThread_)
    prepareThread_();
  prepared = true;
  const bool outer = inBody;
  const unsigned outerThread = currentThread;
  inBody = true;
  currentThread = thread;
  for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) {
    try {
      function_(context_, i, thread);
    } catch (...) {
      std::lock_guard lock(errorMutex_);
      if (!error_)
        error_ = std::current_exception();
    }
  }
  inBody = outer;
  currentThread = outerThread;
}

void ThreadPool::work(unsigned thread) {
  uint32_t seen = 0;
  for (;;) {
    // Steps follow each other within microseconds, so look for the next one a little before going to sleep.
    for (int spin = 0; spin < 4000 && generation_.load(std::memory_order_acquire) == seen; ++spin)
      relax();
    generation_.wait(seen, std::memory_order_acquire);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load())
      return;
    drain(thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      running_.notify_one();
  }
}

void ThreadPool::run(int64_t count, Function function, void *context) {
  if (count <= 0)
    return;
  if (inBody || workers_.empty() || count == 1) {
    thread_local bool prepared = false;
  if (!prepared && prepareThread_)
    prepareThread_();
  prepared = true;
    const bool outer = inBody;
    inBody = true;
    try {
      for (int64_t i = 0; i < count; ++i)
        function(context, i, currentThread);
    } catch (...) {
      inBody = outer;
      throw;
    }
    inBody = outer;
    return;
  }
  function_ = function;
  context_ = context;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  drain(0);
  for (int spin = 0; spin < 4000 && running_.load(std::memory_order_acquire) != 0; ++spin)
    relax();
  for (uint32_t left; (left = running_.load(std::memory_order_acquire)) != 0;)
    running_.wait(left, std::memory_order_acquire);
  if (error_) {
    std::exception_ptr error = std::exchange(error_, nullptr);
    std::rethrow_exception(error);
  }
}

} // namespace msamp::runtime::cpu
