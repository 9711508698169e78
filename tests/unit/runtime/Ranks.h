// Runs a body as several ranks, each a process.
#ifndef MSAMP_TESTS_RANKS_H
#define MSAMP_TESTS_RANKS_H

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "runtime/comm/Communicator.h"
#include "tests/unit/runtime/TempFolder.h"

namespace msamp::test {

// In a rank; GoogleTest's own checks would only be seen in the child.
inline void require(bool holds, const std::string &what) {
  if (!holds)
    throw std::runtime_error("does not hold: " + what);
}

template <class Body> [[noreturn]] void runAsRank(Body &&body) {
  std::signal(SIGPIPE, SIG_IGN); // as the tools do: a lost peer is an error of the call
  int code = 0;
  try {
    body();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 1;
  }
  std::fflush(nullptr);
  ::_exit(code);
}

template <class Body> void onRanks(unsigned ranks, Body &&body) {
  TempFolder folder;
  std::vector<pid_t> children;
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0)
      runAsRank([&] {
        auto communicator = runtime::makeCommunicator({"gloo", rank, ranks, folder.path().string(), std::chrono::seconds(60)});
        body(*communicator);
      });
    children.push_back(pid);
  }
  for (unsigned rank = 0; rank < ranks; ++rank) {
    int status = 0;
    ::waitpid(children[rank], &status, 0);
    EXPECT_EQ(status, 0) << "rank " << rank;
  }
}

} // namespace msamp::test

#endif
