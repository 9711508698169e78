#include "runtime/cluster/Launcher.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "runtime/core/Error.h"

namespace msamp::runtime {

namespace {

constexpr const char *rankVariable = "MSAMP_RANK", *sizeVariable = "MSAMP_WORLD_SIZE", *folderVariable = "MSAMP_RENDEZVOUS";

unsigned numberIn(const char *variable) {
  const char *text = std::getenv(variable);
  unsigned value = 0;
  const char *end = text ? text + std::strlen(text) : nullptr;
  if (!text || std::from_chars(text, end, value).ptr != end || text == end)
    failUsage("the environment variable {} is {}; it belongs to {}, {} and {}, which only msamp-run sets", variable,
        text ? fmt::format("\"{}\"", text) : "missing", rankVariable, sizeVariable, folderVariable);
  return value;
}

// A folder in which ranks find each other; gone with its contents at the end.
class Folder {
public:
  Folder() {
    const char *base = std::getenv("TMPDIR");
    path_ = fmt::format("{}/msamp-XXXXXX", base && *base ? base : "/tmp");
    if (!::mkdtemp(path_.data()))
      failIo("cannot make a folder like {}: {}", path_, std::strerror(errno));
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

struct Child {
  pid_t pid = -1;
  int errors = -1;       // its standard error
  std::string said;      // of it, since the first failure
  bool running = false;
};

[[noreturn]] void becomeRank(unsigned rank, unsigned ranks, const std::string &folder, pid_t parent, int errors,
    const sigset_t &oldMask, char **argv) {
  // Without its supervisor a rank must not live on.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(static_cast<int>(Exit::TryAgain));
  ::dup2(errors, STDERR_FILENO);
  ::setenv(rankVariable, std::to_string(rank).c_str(), 1);
  ::setenv(sizeVariable, std::to_string(ranks).c_str(), 1);
  ::setenv(folderVariable, folder.c_str(), 1);
  ::sigprocmask(SIG_SETMASK, &oldMask, nullptr);
  ::execv("/proc/self/exe", argv);
  fmt::print(stderr, "cannot start {} again: {}\n", argv[0], std::strerror(errno));
  ::_exit(static_cast<int>(Exit::Internal));
}

class Supervisor {
public:
  Supervisor(unsigned ranks, const char *program)
      : program_(std::filesystem::path(program).filename().string() + ": "), children_(ranks) {
    sigset_t watched;
    ::sigemptyset(&watched);
    for (int signal : {SIGCHLD, SIGINT, SIGTERM})
      ::sigaddset(&watched, signal);
    struct sigaction hangup {};
    if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) // as nohup has it
      ::sigaddset(&watched, SIGHUP);
    ::sigprocmask(SIG_BLOCK, &watched, &oldMask_);
    signals_ = ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0)
      failInternal("cannot watch for signals: {}", std::strerror(errno));
  }
  ~Supervisor() {
    for (Child &child : children_) {
      if (child.running) {
        ::kill(child.pid, SIGKILL);
        ::waitpid(child.pid, nullptr, 0);
      }
      if (child.errors >= 0)
        ::close(child.errors);
    }
    ::close(signals_);
    ::sigprocmask(SIG_SETMASK, &oldMask_, nullptr);
  }

  void start(const std::string &folder, char **argv) {
    for (unsigned rank = 0; rank < children_.size(); ++rank) {
      int ends[2];
      if (::pipe2(ends, O_CLOEXEC) != 0)
        failTryAgain("cannot start rank {}: {}", rank, std::strerror(errno));
      const pid_t parent = ::getpid(), pid = ::fork();
      if (pid == 0)
        becomeRank(rank, static_cast<unsigned>(children_.size()), folder, parent, ends[1], oldMask_, argv);
      ::close(ends[1]);
      if (pid < 0) {
        ::close(ends[0]);
        failTryAgain("cannot start rank {}: {}", rank, std::strerror(errno));
      }
      children_[rank] = {pid, ends[0], {}, true};
    }
  }

  int wait() {
    while (anyRunning()) {
      std::vector<pollfd> watched = {{signals_, POLLIN, 0}};
      for (const Child &child : children_)
        watched.push_back({child.errors, POLLIN, 0}); // a negative one is passed over
      ::poll(watched.data(), watched.size(), timeout());
      for (size_t i = 0; i < children_.size(); ++i)
        if (watched[i + 1].revents != 0)
          readErrors(children_[i]);
      handleSignals();
      reap();
      if (failed_ && !killed_ && std::chrono::steady_clock::now() >= deadline_)
        stopOthers();
    }
    for (Child &child : children_)
      while (child.errors >= 0 && readErrors(child))
        ;
    showCause();
    return exitCode_;
  }

private:
  bool anyRunning() const {
    for (const Child &child : children_)
      if (child.running)
        return true;
    return false;
  }

  int timeout() const {
    if (!failed_ || killed_)
      return -1;
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now()).count();
    return static_cast<int>(std::max<long>(0, left) + 1);
  }

  void signalAll(int signal) {
    for (const Child &child : children_)
      if (child.running)
        ::kill(child.pid, signal);
  }

  // Messages of a healthy job pass through. What ranks say when one fails is kept back: peers complain about the loss of it
  // before its own end is known, and only the cause is worth showing. Returns whether there may be more.
  bool readErrors(Child &child) {
    char buffer[4096];
    const ssize_t count = ::read(child.errors, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR)
      return true;
    if (count <= 0) {
      ::close(child.errors);
      child.errors = -1;
      return false;
    }
    child.said.append(buffer, static_cast<size_t>(count));
    // Whole lines that are no error are let through at once.
    size_t begin = 0;
    std::string kept;
    for (size_t end; (end = child.said.find_first_of("\n\r", begin)) != std::string::npos; begin = end + 1) {
      const std::string line = child.said.substr(begin, end + 1 - begin);
      if (isError(line))
        kept += line;
      else
        writeOut(line);
    }
    kept += child.said.substr(begin);
    child.said = std::move(kept);
    return true;
  }

  // "msamp-run: ...", but no warning.
  bool isError(const std::string &line) const {
    return line.starts_with(program_) && line.find("warning") == std::string::npos;
  }

  static void writeOut(const std::string &text) {
    [[maybe_unused]] ssize_t done = ::write(STDERR_FILENO, text.data(), text.size());
  }

  void handleSignals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGCHLD)
        continue;
      // The first asks ranks to end in order; a second ends them at once. What the terminal sends, ranks get as well.
      if (++interrupts_ > 1)
        signalAll(SIGKILL);
      else if (info.ssi_code != SI_KERNEL)
        signalAll(static_cast<int>(info.ssi_signo));
    }
  }

  void reap() {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      Child &child = children_[rank];
      int status = 0;
      if (!child.running || ::waitpid(child.pid, &status, WNOHANG) != child.pid)
        continue;
      child.running = false;
      if (WIFSIGNALED(status))
        noteEnd(rank, WTERMSIG(status), static_cast<int>(Exit::TryAgain));
      else if (WEXITSTATUS(status) != 0)
        noteEnd(rank, 0, WEXITSTATUS(status));
    }
  }

  // A rank that lost its peer fails too and may be seen first. So the cause is a signal that did not come from here, else an error
  // other than the loss of a peer, else the first end.
  void noteEnd(size_t rank, int signal, int code) {
    const bool asked = asked_ || interrupts_ > 0;
    const bool ours = (signal == SIGKILL && (killed_ || interrupts_ > 1)) || (asked && (signal == SIGTERM || signal == SIGINT || signal == SIGHUP));
    const bool orderly = asked && (code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP);
    if (ours || orderly) {
      if (exitCode_ == 0)
        exitCode_ = signal != 0 ? 128 + signal : code;
      return;
    }
    const int weight = signal != 0 ? 3 : code != static_cast<int>(Exit::TryAgain) ? 2 : 1;
    if (weight > causeWeight_) {
      causeWeight_ = weight;
      causeRank_ = rank;
      causeSignal_ = signal;
      exitCode_ = code;
    }
    if (failed_)
      return;
    failed_ = true;
    deadline_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(250);
  }

  // Peers notice a loss within milliseconds and go by themselves, and the rank at fault may only be about to say what is wrong. So a
  // while passes before the others are asked, and another before they are made to go; all within a second.
  void stopOthers() {
    killed_ = asked_;
    asked_ = true;
    signalAll(killed_ ? SIGKILL : SIGTERM);
    deadline_ += std::chrono::milliseconds(500);
  }

  void showCause() {
    if (causeSignal_ != 0)
      writeOut(fmt::format("{}rank {} was killed by signal {} ({}); the other ranks were stopped\n", program_, causeRank_,
          causeSignal_, ::strsignal(causeSignal_)));
    else if (causeWeight_ > 0)
      writeOut(children_[causeRank_].said);
    else
      for (const Child &child : children_)
        writeOut(child.said);
  }

  std::string program_; // how its errors begin
  std::vector<Child> children_;
  sigset_t oldMask_{};
  int signals_ = -1;
  bool failed_ = false, asked_ = false, killed_ = false;
  std::chrono::steady_clock::time_point deadline_;
  int interrupts_ = 0;
  int exitCode_ = 0, causeSignal_ = 0, causeWeight_ = 0;
  size_t causeRank_ = 0;
};

} // namespace

std::optional<RankEnvironment> rankEnvironment() {
  const char *folder = std::getenv(folderVariable);
  if (!folder && !std::getenv(rankVariable) && !std::getenv(sizeVariable))
    return std::nullopt;
  RankEnvironment environment{numberIn(rankVariable), numberIn(sizeVariable), folder ? folder : ""};
  if (!folder || environment.size == 0 || environment.rank >= environment.size)
    failUsage("{}={} and {}={} make no sense, or {} is missing; only msamp-run sets them", rankVariable, environment.rank,
        sizeVariable, environment.size, folderVariable);
  return environment;
}

int launchRanks(unsigned ranks, char **argv) {
  Folder folder;
  Supervisor supervisor(ranks, argv[0]);
  supervisor.start(folder.path(), argv);
  return supervisor.wait();
}

} // namespace msamp::runtime
