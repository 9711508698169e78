#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/unit/runtime/TempFolder.h"

using namespace msamp::test;

namespace {

struct Job {
  TempFolder folder;
  pid_t pid = -1;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  Job(const char *what, const char *ranks) {
    const auto out = folder.path() / "out", err = folder.path() / "err", temporary = folder.path() / "tmp";
    std::filesystem::create_directory(temporary);
    pid = ::fork();
    if (pid == 0) {
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
      ::setenv("TMPDIR", temporary.c_str(), 1);
      ::execl(MSAMP_TEST_RANK_PROGRAM, MSAMP_TEST_RANK_PROGRAM, what, ranks, nullptr);
      ::_exit(127);
    }
  }
  int wait() {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "tmp")) << "something was left behind";
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string out() const { return readFile(folder.path() / "out"); }
  std::string err() const { return readFile(folder.path() / "err"); }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); }
  // Process of a rank, once it has said so.
  pid_t rank(int r) const {
    for (int i = 0; i < 500; ++i) {
      const std::string text = err(), key = "rank " + std::to_string(r) + " pid ";
      if (auto at = text.find(key); at != std::string::npos && text.find('\n', at) != std::string::npos)
        return std::atoi(text.c_str() + at + key.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }
};

size_t count(const std::string &text, const std::string &part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size())
    ++n;
  return n;
}

TEST(Launcher, StartsAllRanksAndPassesTheirOutputOn) {
  Job job("run", "3");
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(count(job.out(), "done"), 3u);
}

TEST(Launcher, TheFirstCauseIsShownOnce) {
  Job job("fail", "3");
  EXPECT_EQ(job.wait(), 65);
  EXPECT_EQ(count(job.err(), "the data of rank 1 are bad"), 1u) << job.err();
  EXPECT_EQ(count(job.err(), "msamp_test_rank: "), 1u) << job.err();
}

TEST(Launcher, AKilledRankEndsTheJob) {
  Job job("killed", "2");
  EXPECT_EQ(job.wait(), 75);
  EXPECT_EQ(count(job.err(), "rank 1 was killed by signal 9"), 1u) << job.err();
  EXPECT_EQ(count(job.err(), "msamp_test_rank: "), 1u) << job.err();
  EXPECT_LT(job.seconds(), 5);
}

TEST(Launcher, ARankKilledFromOutsideEndsTheOthersWithinASecond) {
  Job job("sleep-then-meet", "2");
  const pid_t second = job.rank(1), first = job.rank(0);
  ASSERT_GT(second, 0);
  const double killedAt = job.seconds();
  ::kill(second, SIGKILL);
  EXPECT_EQ(job.wait(), 75);
  EXPECT_LT(job.seconds() - killedAt, 1.0);
  EXPECT_EQ(::kill(first, 0), -1);
  EXPECT_EQ(count(job.err(), "killed by signal 9"), 1u) << job.err();
}

TEST(Launcher, WhoDoesNotListenIsKilledWithinASecond) {
  Job job("hang-after", "2");
  EXPECT_EQ(job.wait(), 74);
  EXPECT_EQ(count(job.err(), "disk full"), 1u) << job.err();
  EXPECT_LT(job.seconds(), 5);
}

TEST(Launcher, SignalsArePassedOn) {
  Job job("sleep-then-meet", "2");
  const pid_t second = job.rank(1);
  ASSERT_GT(second, 0);
  ::kill(job.pid, SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_EQ(::kill(second, 0), -1);
}

TEST(Launcher, NoRankOutlivesItsSupervisor) {
  Job job("sleep-then-meet", "2");
  const pid_t second = job.rank(1), first = job.rank(0);
  ASSERT_GT(second, 0);
  ::kill(job.pid, SIGKILL);
  job.wait();
  for (int i = 0; i < 200 && (::kill(first, 0) == 0 || ::kill(second, 0) == 0); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(::kill(first, 0), -1);
  EXPECT_EQ(::kill(second, 0), -1);
}

TEST(Launcher, VariablesOfNobodyAreRefused) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(2);
    ::setenv("MSAMP_RANK", "x", 1);
    ::setenv("MSAMP_RENDEZVOUS", "/nowhere", 1);
    ::execl(MSAMP_TEST_RANK_PROGRAM, MSAMP_TEST_RANK_PROGRAM, "run", "2", nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 64);
}

} // namespace
