// msamp-run: trains a compiled plan, or checks it against a reference.
#include "tools/msamp-run/Options.h"

#include "runtime/core/Error.h"
#include "runtime/core/Output.h"
#include "runtime/monitor/MemoryTable.h"
#include "runtime/monitor/Progress.h"
#include "runtime/plan/PlanIO.h"
#include "runtime/train/SaveWeights.h"
#include "runtime/train/Signals.h"
#include "tools/common/Main.h"

#include <vector>

using namespace msamp;
using namespace msamp::runtime;

static std::vector<RoleBytes> memoryOfAllRanks(Executor &executor) {
  Communicator &communicator = executor.communicator();
  std::vector<RoleBytes> all(communicator.size());
  RoleBytes own = executor.memory();
  std::vector<double> values(communicator.size());
  for (size_t role = 0; role < roleCount; ++role) {
    communicator.allGatherValue(static_cast<double>(own[role]), values);
    for (size_t rank = 0; rank < all.size(); ++rank)
      all[rank][role] = static_cast<uint64_t>(values[rank]);
  }
  return all;
}

static void showPlan(Executor &executor, const data::Loader *loader) {
  const plan::Plan &plan = executor.plan().plan;
  uint64_t values = 0;
  for (const plan::Parameter &parameter : plan.parameters()) {
    uint64_t count = 1;
    for (int64_t extent : parameter.shape())
      count *= static_cast<uint64_t>(extent);
    values += parameter.trained() ? count : 0;
  }
  printOutput("{}: level {}{}, {}, {} parameters trained\n", plan.source(), plan.level(),
             plan.sites_size() > 0 ? fmt::format(" ({} scaling)", plan.recipe()) : "", plan.optimizer(),
             monitor::humanCount(static_cast<double>(values)));
  printOutput("{} rank{} on {}; {} micro-batch{} a rank and step, ZeRO {}\n", executor.communicator().size(),
             executor.communicator().size() == 1 ? "" : "s", executor.device().description(), plan.accumulate(),
             plan.accumulate() == 1 ? "" : "es", plan.zero());
  if (loader)
    printOutput("{}\n", loader->summary());
}

// Steps that changed nothing: a run of nothing else has trained nothing.
static void tellSkipped(const train::TrainResult &result, const std::string &saveFile, const std::string &level) {
  if (result.skipped == 0)
    return;
  if (result.skipped == result.steps && result.signal == 0)
    failData(
        "none of {} steps changed the weights: the gradients of all were not finite{}. Look at the data, at the "
        "initial weights (msampc --init) and at the learning rate (--lr, --warmup){}",
        result.steps, saveFile.empty() ? "" : fmt::format("; {} has the weights as they were, but for running statistics", saveFile),
        level == "fp32" ? "" : "; msampc --level fp32 tells whether it is the precision");
  fmt::print(
      stderr,
      "msamp-run: warning: {} of {} steps were skipped, as their gradients were not finite: they changed no weight. "
      "\"skipped\" in metrics.jsonl (--log-dir) is 1 in each of them\n",
      result.skipped, result.steps);
}

// A cross-entropy is that of no label.
static void tellLossless(const train::TrainResult &result) {
  if (result.steps > 0 && result.lossless == result.steps)
    fmt::print(stderr,
               "msamp-run: warning: the loss was exactly 0 in all {} steps, so nothing was learned; look at the labels: "
               "those that are -100 are ignored\n",
               result.steps);
}

// One rank's work from loading to the end.
static int runRank(const tools::Options &options, LoadedPlan loaded, const RankEnvironment &where) {
  std::optional<data::Loader> loader;
  plan::Plan inputs = loaded.plan; // the loader's; the executor takes the other
  if (!options.check && !options.memory)
    loader.emplace(inputs, options.loader);
  tools::Rank rank(options, std::move(loaded), where);
  Executor &executor = *rank.executor;

  bool first = where.rank == 0;
  std::vector<RoleBytes> memory = memoryOfAllRanks(executor);
  if (first && !options.check) {
    showPlan(executor, loader ? &*loader : nullptr);
    printOutput("{}", monitor::memoryTable(memory));
  }
  if (options.memory)
    return 0;
  executor.initialize(options.loader.seed);
  if (options.check)
    return train::check(executor, *options.check) ? 0 : 1;
  train::TrainResult result = train::train(executor, *loader, options.train);
  if (first) {
    tellLossless(result);
    tellSkipped(result, options.train.saveFile, executor.plan().plan.level());
  }
  return result.signal == 0 ? 0 : 128 + result.signal;
}

static int run(int argc, char **argv) {
  std::optional<tools::Options> options = tools::parseOptions(argc, argv);
  if (!options)
    return 0;
  std::optional<RankEnvironment> where = rankEnvironment();
  if (where)
    train::installStopSignals();

  // The process that was called checks everything before it starts ranks, so that a mistake is told once.
  LoadOptions loadOptions;
  loadOptions.verifyParts = !where;
  LoadedPlan loaded = loadPlan(options->plan, loadOptions);
  if (!where) {
    if (!options->train.saveFile.empty())
      train::checkCanSave(options->train.saveFile);
    if (options->ranks > 1) {
      if (!options->memory)
        data::Loader(loaded.plan, options->loader);
      return launchRanks(options->ranks, argv);
    }
    train::installStopSignals();
  }
  return runRank(*options, std::move(loaded), where.value_or(RankEnvironment{}));
}

int main(int argc, char **argv) {
  return tools::runTool("msamp-run", [&] { return run(argc, argv); });
}
