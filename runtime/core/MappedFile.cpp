#include "runtime/core/MappedFile.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/core/Error.h"

namespace msamp::runtime {

namespace {

// What is mapped now, for the handler below; it may touch nothing but this. A slot is in use while `begin` is not 0; more
// files than slots are mapped all the same, without a message of their own.
struct Mapping {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};
  std::array<char, 512> path{};
};
std::array<Mapping, 256> mappings;

void say(const char *text) {
  [[maybe_unused]] ssize_t done = ::write(STDERR_FILENO, text, std::strlen(text));
}

// A page of a mapped file that cannot be read (the file was cut short meanwhile, or its disk failed) raises SIGBUS.
void onBusError(int signal, siginfo_t *info, void *) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Mapping &mapping : mappings) {
    const uintptr_t begin = mapping.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= mapping.end.load(std::memory_order_relaxed))
      continue;
    say(program_invocation_short_name);
    say(": ");
    say(mapping.path.data());
    say(": cannot be read any more: the file was made shorter while it was in use, or its disk failed\n");
    ::_exit(static_cast<int>(Exit::Io));
  }
  ::signal(signal, SIG_DFL); // not ours: the instruction runs again and ends the process
}

void watchBusErrors() {
  struct sigaction action {};
  action.sa_sigaction = onBusError;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

void note(const void *data, uint64_t size, const std::string &path) {
  static const bool once = (watchBusErrors(), true);
  (void)once;
  for (Mapping &mapping : mappings) {
    if (mapping.taken.exchange(true))
      continue;
    mapping.path[path.copy(mapping.path.data(), mapping.path.size() - 1)] = '\0';
    const auto begin = reinterpret_cast<uintptr_t>(data);
    mapping.end.store(begin + size + 4095); // to the end of the last page
    mapping.begin.store(begin, std::memory_order_release);
    return;
  }
}

void forget(const void *data) {
  for (Mapping &mapping : mappings)
    if (mapping.begin.load() == reinterpret_cast<uintptr_t>(data)) {
      mapping.begin.store(0);
      mapping.taken.store(false);
      return;
    }
}

} // namespace

MappedFile::MappedFile(const std::filesystem::path &path) {
  // A pipe without a writer would be waited for.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    failIo("cannot open {}: {}", path.string(), std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    failIo("cannot read {}: not a regular file", path.string());
  }
  size_ = static_cast<uint64_t>(status.st_size);
  if (size_ > 0) {
    void *address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int error = errno;
    ::close(descriptor);
    if (address == MAP_FAILED) {
      size_ = 0;
      failIo("cannot map {}: {}", path.string(), std::strerror(error));
    }
    data_ = static_cast<const std::byte *>(address);
    note(data_, size_, path.string());
  } else {
    ::close(descriptor);
  }
}

MappedFile::~MappedFile() {
  if (!data_)
    return;
  forget(data_);
  ::munmap(const_cast<std::byte *>(data_), size_);
}

} // namespace msamp::runtime
