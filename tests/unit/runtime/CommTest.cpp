#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <numeric>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/comm/Communicator.h"
#include "tests/unit/runtime/ExpectError.h"
#include "tests/unit/runtime/Ranks.h"

using namespace msamp::runtime;
using namespace msamp::test;

namespace {

TEST(Communicator, AllToAllMovesUnevenParts) {
  onRanks(3, [](Communicator &comm) {
    const unsigned me = comm.rank();
    // Rank r sends r + 1 bytes of value 16 r + p to rank p, at odd places; rank 2 gets nothing from itself.
    std::vector<size_t> sendOffsets(3), sendBytes(3), receiveOffsets(3), receiveBytes(3);
    std::vector<unsigned char> send(64), receive(64, 0xee);
    for (unsigned p = 0; p < 3; ++p) {
      sendOffsets[p] = 10 * p + 1;
      sendBytes[p] = me == 2 && p == 2 ? 0 : me + 1;
      receiveOffsets[p] = 20 * p;
      receiveBytes[p] = me == 2 && p == 2 ? 0 : p + 1;
      std::fill_n(send.begin() + static_cast<long>(sendOffsets[p]), me + 1, static_cast<unsigned char>(16 * me + p));
    }
    comm.allToAll(send.data(), sendOffsets, sendBytes, receive.data(), receiveOffsets, receiveBytes);
    for (unsigned p = 0; p < 3; ++p)
      for (size_t i = 0; i < 20; ++i)
        require(receive[20 * p + i] == (i < receiveBytes[p] ? 16 * p + me : 0xee), "all-to-all");
  });
}

TEST(Communicator, ReductionsAreTheSameEverywhere) {
  onRanks(3, [](Communicator &comm) {
    std::vector<float> values = {static_cast<float>(comm.rank()), -static_cast<float>(comm.rank()), comm.rank() == 1 ? NAN : 5.0f};
    comm.allReduceMax(values);
    require(values[0] == 2 && values[1] == 0 && std::isnan(values[2]), "max");
    std::vector<double> sums = {1e16, comm.rank() == 0 ? 1.0 : 0.25};
    comm.allReduceSum(sums);
    require(sums[0] == 3e16 && sums[1] == 1.5, "sum");
    std::vector<double> all(3);
    comm.allGatherValue(comm.rank() * 1.5, all);
    require(all == std::vector<double>({0, 1.5, 3.0}), "gather");
    std::vector<char> large(3 << 20);
    std::fill_n(large.begin() + (comm.rank() << 20), 1 << 20, static_cast<char>('a' + comm.rank()));
    std::vector<size_t> offsets = {0, 1 << 20, 2 << 20}, bytes(3, 1 << 20);
    comm.allGather(large.data(), offsets, bytes);
    require(large[5] == 'a' && large[(1 << 20) + 5] == 'b' && large.back() == 'c', "large all-gather");
    comm.barrier();
  });
}

TEST(Communicator, ALostPeerIsNamed) {
  TempFolder folder;
  std::filesystem::create_directories(folder.path() / "meet");
  std::vector<pid_t> children;
  for (unsigned rank = 0; rank < 2; ++rank) {
    const pid_t pid = ::fork();
    if (pid == 0)
      runAsRank([&] {
        auto comm = makeCommunicator({"gloo", rank, 2, (folder.path() / "meet").string(), std::chrono::seconds(20)});
        if (rank == 1)
          ::raise(SIGKILL);
        const auto start = std::chrono::steady_clock::now();
        try {
          comm->barrier();
          require(false, "no error");
        } catch (const Error &error) {
          require(error.exitCode() == 75 && std::string(error.what()).find("connection to rank 1 is lost") != std::string::npos,
              error.what());
        }
        require(std::chrono::steady_clock::now() - start < std::chrono::seconds(1), "took too long");
      });
    children.push_back(pid);
  }
  int status = 0;
  ::waitpid(children[1], &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::waitpid(children[0], &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the ranks left their meeting place behind";
}

TEST(Communicator, APeerThatNeverComesIsATimeout) {
  TempFolder folder;
  expectError(75, "did not find each other", [&] {
    makeCommunicator({"gloo", 0, 2, folder.path().string(), std::chrono::milliseconds(300)});
  });
}

TEST(Communicator, OneRankNeedsNoBackEnd) {
  auto comm = makeCommunicator({});
  std::vector<float> values = {1, 2};
  comm->allReduceMax(values);
  EXPECT_EQ(values, (std::vector<float>{1, 2}));
  EXPECT_EQ(comm->size(), 1u);
}

} // namespace
