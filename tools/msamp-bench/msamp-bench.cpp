// msamp-bench: measures the training step of a compiled plan.
#include "tools/msamp-bench/Limits.h"
#include "tools/msamp-bench/Measure.h"
#include "tools/msamp-bench/Options.h"
#include "tools/msamp-bench/Report.h"

#include "runtime/core/Error.h"
#include "runtime/core/Output.h"
#include "tools/common/Main.h"

using namespace msamp;
using namespace msamp::runtime;

static int runRank(const bench::Options &options, LoadedPlan loaded, const RankEnvironment &where) {
  const plan::Plan inputs = loaded.plan; // the loader's; the executor takes the other
  const data::Loader loader(inputs, options.loader);
  const uint64_t resident = bench::residentBytes();
  tools::Rank rank(options, std::move(loaded), where);
  rank.executor->initialize(options.loader.seed);
  const bench::Measurement measurement = bench::measure(*rank.executor, loader, options, resident);
  if (where.rank != 0) {
    rank.communicator->barrier();
    return 0;
  }
  bench::Limits limits(*rank.device, options.peak);
  const auto report = bench::report(*rank.executor, rank.device->description(), options, measurement, limits);
  const std::string text = bench::reportText(report, options.table);
  if (options.json) {
    fmt::print(stderr, "{}", text);
    writeOutput(report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    writeOutput(text);
  }
  rank.communicator->barrier();
  return 0;
}

static int run(int argc, char **argv) {
  std::optional<bench::Options> options = bench::parseOptions(argc, argv);
  if (!options)
    return 0;
  std::optional<RankEnvironment> where = rankEnvironment();
  LoadOptions loadOptions;
  loadOptions.verifyParts = !where;
  LoadedPlan loaded = loadPlan(options->plan, loadOptions);
  if (!where && options->ranks > 1) {
    data::Loader(loaded.plan, options->loader); // a mistake is told once
    return launchRanks(options->ranks, argv);
  }
  return runRank(*options, std::move(loaded), where.value_or(RankEnvironment{}));
}

int main(int argc, char **argv) {
  return tools::runTool("msamp-bench", [&] { return run(argc, argv); });
}
