#include "tools/msamp-bench/Options.h"

#include "tools/common/Flags.h"

namespace msamp::bench {
using namespace tools;

std::optional<Options> parseOptions(int argc, char **argv) {
  Options options;
  CLI::App app("Measures the training step of a plan: speed, memory, and where the time goes.", "msamp-bench");
  app.set_version_flag("--version", "msamp-bench " MSAMP_VERSION);
  app.get_formatter()->column_width(34);
  RunFlags flags(options);
  flags.addPlanAndData(app);
  app.get_option("--data")->description(app.get_option("--data")->get_description() +
                                        ". Inputs without data get random values, new ones each step");
  app.add_option("--steps", options.steps, "steps that are measured; their median counts")
      ->check(integer(1, 1u << 20, "a number of steps (at least 1)"))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "steps before those")
      ->check(integer(0, 1u << 20, "a number of steps"))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--lr", options.hyper.lr, "learning rate")->check(notNegative())->type_name("X")->capture_default_str();
  flags.addOptimizer(app);
  flags.addDevice(app);
  app.add_option("--peak", options.peak,
                 "TFLOP/s that shares of the peak are of [by the device's name, of the narrowest type that the plan multiplies; "
                 "else a product measured here]")
      ->check(positive())
      ->type_name("X");
  app.add_flag("--json", options.json, "print one JSON object on standard output, and all else on standard error");
  app.add_flag("!--no-table", options.table, "leave out the table of kernels and shapes");
  app.footer(
      wrapped("Model FLOPs are three times those of the forward's products (2 M N K) and of attention's two (half of them under a "
              "causal mask): what is computed again in the backward does not count. Exit codes: 0 done; 64 usage; 65 bad data or "
              "plan; 70 internal error; 74 input or output; 75 try again (a rank was lost, memory ran out).",
              116));
  if (!parse(app, argc, argv))
    return std::nullopt;
  flags.finish();
  options.loader.randomRest = true;
  return options;
}

} // namespace msamp::bench
