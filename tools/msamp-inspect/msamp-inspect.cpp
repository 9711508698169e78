// msamp-inspect: what a plan holds and what it will do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

#include "runtime/core/Error.h"
#include "tools/common/ParseError.h"
#include "tools/msamp-inspect/Describe.h"

static void keepTarget(msamp::plan::Plan &plan, const std::string &name) {
  auto &targets = *plan.mutable_targets();
  const auto found = std::find_if(targets.begin(), targets.end(), [&](const auto &target) { return target.name() == name; });
  if (found == targets.end())
    msamp::runtime::failUsage("--target {}: the plan is for {}", name,
                              fmt::join(msamp::runtime::targetNames(plan), ", "));
  targets.erase(found + 1, targets.end());
  targets.erase(targets.begin(), found);
}

int main(int argc, char **argv) {
  using namespace msamp;
  std::signal(SIGPIPE, SIG_IGN); // `msamp-inspect plan | head` ends quietly
  CLI::App app{"Shows a plan: header, parameters, and for each target memory by role and the steps of each program.", "msamp-inspect"};
  app.option_defaults()->always_capture_default();
  std::string directory, format = "text", target;
  unsigned ranks = 1;
  app.add_option("PLAN", directory, "directory that msampc wrote")->required()->type_name("");
  app.add_option("--format", format, "text or json")->check(CLI::IsMember({"text", "json"}))->type_name("FORMAT");
  app.add_option("--ranks", ranks, "number of ranks to show memory for")
      ->check(CLI::Range(1u, 1u << 16))
      ->type_name("R");
  app.add_option("--target", target, "the target to show [all that the plan has]")->type_name("TARGET");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &e) {
    return app.exit(e);
  } catch (const CLI::ParseError &e) {
    std::cerr << "msamp-inspect: error: " << tools::messageOf(app, e) << "\nRun msamp-inspect --help for all flags.\n";
    return static_cast<int>(runtime::Exit::Usage);
  }
  try {
    runtime::LoadedPlan loaded = runtime::loadPlan(directory);
    if (app.count("--target") > 0)
      keepTarget(loaded.plan, target);
    const inspect::Json description = inspect::describe(loaded, ranks);
    if (format == "json")
      std::cout << description.dump(1) << "\n";
    else
      inspect::printText(description, std::cout);
    std::cout.flush();
    if (!std::cout && errno != EPIPE)
      runtime::failIo("standard output cannot be written: {}", std::strerror(errno));
    return 0;
  } catch (const runtime::Error &e) {
    std::cerr << "msamp-inspect: error: " << e.what() << std::endl;
    return e.exitCode();
  } catch (const std::exception &e) {
    std::cerr << "msamp-inspect: error: internal error: " << e.what() << std::endl;
    return static_cast<int>(runtime::Exit::Internal);
  }
}
