// Flags, their defaults and the bounds of their values.
#include "tools/msamp-run/Options.h"

#include "runtime/core/Error.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sched.h>

namespace msamp::tools {
using namespace runtime;

unsigned availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return std::max(1, CPU_COUNT(&set));
}

// A finite number of an interval, ends included unless said otherwise.
static CLI::Validator number(double low, double high, const std::string &wanted, bool openHigh = false) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        char *end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !std::isfinite(value) || value < low || value > high ||
            (openHigh && value == high))
          return fmt::format("{} is not {}", text.empty() ? "an empty text" : text, wanted);
        return {};
      },
      "", "");
}

static CLI::Validator integer(uint64_t low, uint64_t high, const std::string &wanted) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        bool digits = !text.empty() && text.size() < 20 &&
                      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
        if (!digits || std::stoull(text) < low || std::stoull(text) > high)
          return fmt::format("{} is not {}", text.empty() ? "an empty text" : text, wanted);
        return {};
      },
      "", "");
}

static CLI::Validator oneOf(const std::vector<std::string> &names) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        if (std::find(names.begin(), names.end(), text) != names.end())
          return {};
        return fmt::format("{} is none of {}", text.empty() ? "an empty text" : text, fmt::join(names, ", "));
      },
      "", "");
}

// Breaks a description into lines that fit beside the flags' column.
static std::string wrapped(const std::string &text, size_t width = 82) {
  std::string result;
  size_t line = 0;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find(' ', begin), text.size());
    if (line > 0 && line + 1 + (end - begin) > width) {
      result += '\n';
      line = 0;
    } else if (line > 0) {
      result += ' ';
      ++line;
    }
    result.append(text, begin, end - begin);
    line += end - begin;
    begin = end + 1;
  }
  return result;
}

static std::string notEmpty(std::string &text) { return text.empty() ? "an empty text names no file" : ""; }

static train::Decay decayNamed(const std::string &name) {
  return name == "linear" ? train::Decay::Linear : name == "cosine" ? train::Decay::Cosine : train::Decay::Constant;
}

std::optional<Options> parseOptions(int argc, char **argv) {
  Options options;
  CLI::App app("Trains a plan that msampc compiled.", "msamp-run");
  app.set_version_flag("--version", "msamp-run " MSAMP_VERSION);
  app.get_formatter()->column_width(34);

  std::vector<std::string> sources;
  std::string dataType = "u16", schedule = "constant", device = "cpu", reference;
  uint64_t ranks = 1, threads = 0;
  std::optional<double> minLr, rtol;
  Hyper &hyper = options.train.hyper;
  train::Schedule &rates = options.train.schedule;
  rates.steps = 100;

  unsigned cores = availableCores();
  uint64_t mostRanks = std::min<uint64_t>(64, 8ull * cores);
  constexpr double huge = std::numeric_limits<double>::max();
  auto positive = number(std::numeric_limits<double>::min(), huge, "a number above 0");
  auto notNegative = number(0, huge, "a number of at least 0");

  const CLI::Validator named(notEmpty, "", "");
  app.add_option("PLAN", options.plan, "the plan's folder")->required()->check(named);
  app.add_option(
         "--data", sources,
         "FILE or NAME=FILE, where NAME is an input of the model; may be given several times. A bare FILE of tokens "
         "feeds the token input and, shifted by one, the labels: .bin as --data-type says, anything else as bytes. "
         ".npy and .safetensors hold samples along their first axis; a bare .safetensors gives each input the tensor "
         "of its name")
      ->type_name("[NAME=]FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--data-type", dataType, "type of the tokens in .bin files")
      ->check(oneOf({"u8", "u16", "u32"}))
      ->type_name("u8|u16|u32")
      ->capture_default_str();
  app.add_option("--steps", rates.steps, "optimizer steps to make")
      ->check(integer(1, 1ull << 40, "a number of steps (at least 1)"))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--lr", rates.lr, "peak learning rate")->check(notNegative)->type_name("X")->capture_default_str();
  app.add_option("--min-lr", minLr, "where linear and cosine end [a tenth of --lr]")
      ->check(notNegative)
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
  auto fraction = number(0, 1, "a number of at least 0 and below 1", true);
  app.add_option("--beta1", hyper.beta1, "decay of the first moment")
      ->check(fraction)
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--beta2", hyper.beta2, "decay of the second moment")
      ->check(fraction)
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--eps", hyper.eps, "added to the root of the second moment")
      ->check(positive)
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--weight-decay", hyper.weightDecay, "decoupled weight decay, on all parameters")
      ->check(notNegative)
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--clip", hyper.clip, "largest norm of the mean gradient; 0: no clipping")
      ->check(notNegative)
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--seed", options.loader.seed,
                 "of the initial weights (msampc --init normal) and the order of the data")
      ->check(integer(0, std::numeric_limits<int64_t>::max(), "a whole number from 0 to 2^63 - 1"))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--device", device, "what to run on")->type_name("cpu")->capture_default_str();
  app.add_option("--nproc", ranks, fmt::format("ranks to start on this machine (1 to {} here)", mostRanks))
      ->check(integer(
          1, mostRanks,
          fmt::format("a number of ranks from 1 to {} (8 for each of the {} cores, and at most 64)", mostRanks, cores)))
      ->type_name("R")
      ->capture_default_str();
  app.add_option("--threads", threads, "threads of each rank; 0: the cores shared out among the ranks")
      ->check(integer(0, 1024, "a number of threads from 0 to 1024"))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--log-dir", options.train.logFolder, "folder for metrics.jsonl, one JSON object a step")
      ->check(named)
      ->type_name("DIR");
  app.add_option(
         "--save", options.train.saveFile,
         "write all parameters in FP32 by ONNX name, at the end and on SIGINT, SIGTERM or SIGHUP (after the current step; "
         "a second signal quits at once)")
      ->check(named)->type_name("FILE.safetensors");
  auto *check =
      app.add_option(
             "--check", reference,
             "instead of training, run one step without update on in.* of FILE and compare out.* and grad.* with it")
          ->check(named)->type_name("FILE.safetensors");
  app.add_option("--rtol", rtol,
                 "bound of every relative error of --check [derived from the level; fp32: 1e-5 for the loss, "
                 "1e-4 for the rest]")
      ->check(positive)
      ->type_name("X")
      ->needs(check);
  app.add_flag("--memory", options.memory, "print the bytes by role of each rank, and do not train");
  app.footer(wrapped(
      "Exit codes: 0 done; 1 --check found an error beyond its bound; 64 usage; 65 bad data or plan; 70 internal "
      "error; "
      "74 input or output; 75 try again (a rank was lost, memory ran out); 129, 130 and 143 ended by SIGHUP, SIGINT and SIGTERM, "
      "weights saved.",
      116));

  for (CLI::Option *option : app.get_options())
    option->description(wrapped(option->get_description()));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      app.exit(error); // prints the help or the version
      return std::nullopt;
    }
    failUsage("{}\nmsamp-run --help lists all flags", error.what());
  }

  if (device.starts_with("cuda"))
    failUsage("--device {}: this build has no CUDA device; it has: cpu", device);
  if (device != "cpu")
    failUsage("--device {}: no such device; this build has: cpu", device);
  rates.decay = decayNamed(schedule);
  rates.minLr = minLr.value_or(rates.lr / 10);
  if (rates.minLr > rates.lr)
    failUsage("--min-lr {}: above --lr {}", rates.minLr, rates.lr);
  for (const std::string &source : sources)
    options.loader.sources.push_back(data::parseDataSource(source));
  options.loader.binType = dataType == "u8"    ? data::TokenType::U8
                           : dataType == "u32" ? data::TokenType::U32
                                               : data::TokenType::U16;
  options.ranks = static_cast<unsigned>(ranks);
  options.threads = static_cast<unsigned>(threads);
  if (*check) {
    if (options.ranks != 1)
      failUsage("--check runs on one rank: leave --nproc out");
    options.check = train::CheckOptions{reference, rtol};
  } else if (sources.empty() && !options.memory) {
    failUsage("--data is missing: give a file to train on (or --check or --memory)");
  }
  return options;
}

} // namespace msamp::tools
