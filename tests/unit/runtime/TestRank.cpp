// Started by the launcher's tests. argv[1] says what to do: as the parent, start `argv[2]` ranks of itself; as a rank, end in some way.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "runtime/cluster/Launcher.h"
#include "runtime/comm/Communicator.h"
#include "runtime/core/Error.h"

using namespace msamp::runtime;

int main(int argc, char **argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "";
    const auto where = rankEnvironment();
    if (!where)
      return launchRanks(static_cast<unsigned>(std::atoi(argv[2])), argv);
    auto comm = makeCommunicator({"gloo", where->rank, where->size, where->rendezvous, std::chrono::seconds(30)});
    std::fprintf(stderr, "rank %u pid %d\n", where->rank, ::getpid());
    if (what == "sleep-then-meet" && where->rank == 1)
      ::pause();
    if (what == "fail" && where->rank == 1)
      failData("the data of rank {} are bad", where->rank);
    if (what == "killed" && where->rank == 1)
      ::raise(SIGKILL);
    if (what == "hang-after" && where->rank == 1)
      failIo("disk full");
    if (what == "hang-after") { // deaf to requests
      std::signal(SIGTERM, SIG_IGN);
      ::sleep(60);
    }
    comm->barrier();
    std::printf("rank %u done\n", where->rank);
    return 0;
  } catch (const Error &error) {
    std::fprintf(stderr, "msamp_test_rank: %s\n", error.what());
    return error.exitCode();
  }
}
