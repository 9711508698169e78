// Flags, their defaults and the bounds of their values.
#include "tools/msamp-run/Options.h"

#include "runtime/core/Error.h"
#include "tools/common/Flags.h"

namespace msamp::tools {
using namespace runtime;

static train::Decay decayNamed(const std::string &name) {
  return name == "linear" ? train::Decay::Linear : name == "cosine" ? train::Decay::Cosine : train::Decay::Constant;
}

std::optional<Options> parseOptions(int argc, char **argv) {
  Options options;
  CLI::App app("Trains a plan that msampc compiled.", "msamp-run");
  app.set_version_flag("--version", "msamp-run " MSAMP_VERSION);
  app.get_formatter()->column_width(34);

  std::string schedule = "constant", reference;
  std::optional<double> minLr, rtol;
  train::Schedule &rates = options.train.schedule;
  rates.steps = 100;

  RunFlags flags(options);
  flags.addPlanAndData(app);
  app.add_option("--steps", rates.steps, "optimizer steps to make")
      ->check(integer(1, 1ull << 40, "a number of steps (at least 1)"))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--lr", rates.lr, "peak learning rate")->check(notNegative())->type_name("X")->capture_default_str();
  app.add_option("--min-lr", minLr, "where linear and cosine end [a tenth of --lr]")
      ->check(notNegative())
      ->type_name("X");
  app.add_option("--warmup", rates.warmup, "steps over which the rate grows linearly: lr * (step + 1) / N")
      ->check(integer(0, 1ull << 40, "a number of steps"))
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--schedule", schedule,
         "after the warm-up, with p from 0 to 1 at the last step: constant lr; linear min + (lr - min) (1 - p); "
         "cosine min + (lr - min) (1 + cos(pi p)) / 2")
      ->check(oneOf({"constant", "linear", "cosine"}))
      ->type_name("constant|linear|cosine")
      ->capture_default_str();
  flags.addOptimizer(app);
  flags.addDevice(app);
  app.add_option("--log-dir", options.train.logFolder,
                 "folder for metrics.jsonl, one JSON object a step; that of an earlier run becomes metrics.1.jsonl, "
                 "metrics.2.jsonl, ..")
      ->check(notEmpty())
      ->type_name("DIR");
  app.add_option(
         "--save", options.train.saveFile,
         "write all parameters in FP32 by ONNX name, at the end and on SIGINT, SIGTERM or SIGHUP (after the current step; "
         "a second signal quits at once)")
      ->check(notEmpty())->type_name("FILE.safetensors");
  app.add_option("--profile", options.train.profileFile,
                 "write a trace of the fifth step (of the last, if there are fewer) of rank 0 for Perfetto or "
                 "chrome://tracing: a span a step of the plan, with ONNX nodes, bytes and operations")
      ->check(notEmpty())
      ->type_name("FILE.json");
  auto *check =
      app.add_option(
             "--check", reference,
             "instead of training, run one step without update on in.* of FILE and compare out.* and grad.* with it")
          ->check(notEmpty())->type_name("FILE.safetensors");
  app.add_option("--rtol", rtol,
                 "bound of every relative error of --check [derived from the level; fp32: 1e-5 for the loss, "
                 "1e-4 for the rest]")
      ->check(positive())
      ->type_name("X")
      ->needs(check);
  app.add_flag("--memory", options.memory, "print the bytes by role of each rank, and do not train");
  app.footer(wrapped(
      "Exit codes: 0 done; 1 --check found an error beyond its bound; 64 usage; 65 bad data or plan, or no step changed a "
      "weight; 70 internal error; "
      "74 input or output; 75 try again (a rank was lost, memory ran out); 129, 130 and 143 ended by SIGHUP, SIGINT and SIGTERM, "
      "weights saved.",
      116));

  if (!parse(app, argc, argv))
    return std::nullopt;
  flags.finish();
  options.train.hyper = options.hyper;
  rates.decay = decayNamed(schedule);
  rates.minLr = minLr.value_or(rates.lr / 10);
  if (rates.minLr > rates.lr)
    failUsage("--min-lr {}: above --lr {}", rates.minLr, rates.lr);
  // Other programs would take the file for what its name says.
  for (const char *other : {".pt", ".pth", ".ckpt", ".bin", ".onnx", ".npz", ".npy"})
    if (options.train.saveFile.ends_with(other))
      failUsage("--save {}: weights are written as safetensors, not as {}; give the file a name that ends in .safetensors",
                options.train.saveFile, other);
  if (*check) {
    if (options.ranks != 1)
      failUsage("--check runs on one rank: leave --nproc out");
    options.check = train::CheckOptions{reference, rtol};
  } else if (!flags.hasData() && !options.memory) {
    failUsage("--data is missing: give a file to train on (or --check or --memory)");
  }
  return options;
}

} // namespace msamp::tools
