// Starts the ranks of a job on this machine and watches over them.
#ifndef MSAMP_RUNTIME_CLUSTER_LAUNCHER_H
#define MSAMP_RUNTIME_CLUSTER_LAUNCHER_H

#include <optional>
#include <string>

namespace msamp::runtime {

// What a process that was started as a rank finds in its environment.
struct RankEnvironment {
  unsigned rank = 0, size = 1;
  std::string rendezvous;
};
// Nothing if this process was not started by a launcher; error 64 if the variables make no sense.
std::optional<RankEnvironment> rankEnvironment();

// Runs this program again (same arguments) as `ranks` processes and waits for them. If one fails, the others are stopped within
// a second and the first cause is shown once, on standard error. SIGINT and SIGTERM are passed on. Returns the
// exit code: 0, the first failing rank's own, or 75 if it was killed by a signal.
int launchRanks(unsigned ranks, char **argv);

} // namespace msamp::runtime

#endif
