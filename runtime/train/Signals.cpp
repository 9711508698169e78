// A thread of its own waits for signals; it only sets a flag, or leaves by _exit.
#include "runtime/train/Signals.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <pthread.h>
#include <thread>
#include <unistd.h>

namespace msamp::train {

static std::atomic<int> received{0};
static std::atomic<long> receivedAt{0}; // milliseconds
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<long>::is_always_lock_free);

static void onSignal(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  long milliseconds = now.tv_sec * 1000L + now.tv_nsec / 1000000L;
  int none = 0;
  if (received.compare_exchange_strong(none, signal)) {
    receivedAt.store(milliseconds);
    return;
  }
  // A signal to the process group reaches the ranks directly and again through the launcher: one request, two signals.
  if (milliseconds - receivedAt.load() > 100)
    _exit(128 + signal);
}

void installStopSignals() {
  struct sigaction action {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigset_t watched;
  sigemptyset(&watched);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // nohup has SIGHUP ignored, which stays so.
    struct sigaction before {};
    if (signal == SIGHUP && sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN)
      continue;
    sigaction(signal, &action, nullptr);
    sigaddset(&watched, signal);
  }
  // One thread takes them, so that no signal frame is ever laid over the stack of generated or library code in the midst of
  // a step. Threads started from here on inherit the mask.
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  std::thread([watched] {
    for (int signal = 0;;)
      if (sigwait(&watched, &signal) == 0)
        onSignal(signal);
  }).detach();
}

int stopSignal() {
  return received.load();
}

} // namespace msamp::train
