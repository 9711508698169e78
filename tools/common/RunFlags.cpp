#include "tools/common/RunFlags.h"

#include "runtime/core/Error.h"
#include "runtime/core/Modules.h"
#include "tools/common/Flags.h"

#include <algorithm>
#include <sched.h>

namespace msamp::tools {
using namespace runtime;

unsigned availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

void RunFlags::addPlanAndData(CLI::App &app) {
  app.add_option("PLAN", options.plan, "the plan's folder")->required()->check(notEmpty());
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
}

void RunFlags::addOptimizer(CLI::App &app) {
  Hyper &hyper = options.hyper;
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
      ->check(number(1e-15, std::numeric_limits<double>::max(), "a number of at least 1e-15"))
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--weight-decay", hyper.weightDecay, "decoupled weight decay, on all parameters")
      ->check(notNegative())
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--clip", hyper.clip, "largest norm of the mean gradient; 0: no clipping")
      ->check(notNegative())
      ->type_name("X")
      ->capture_default_str();
  app.add_option("--seed", options.loader.seed,
                 "of the initial weights (msampc --init normal) and the order of the data")
      ->check(integer(0, std::numeric_limits<int64_t>::max(), "a whole number from 0 to 2^63 - 1"))
      ->type_name("N")
      ->capture_default_str();
}

void RunFlags::addDevice(CLI::App &app) {
  unsigned cores = availableCores();
  uint64_t mostRanks = std::min<uint64_t>(64, 8ull * cores);
  app.add_option("--device", options.device, "what to run on")->type_name("cpu|cuda")->capture_default_str();
  app.add_flag("!--nondeterministic-attention", options.deterministic,
               "on a GPU: attention's gradients add in any order, which is faster and takes less memory; the same seed "
               "then no longer gives the same bits");
  app.add_option("--nproc", ranks, fmt::format("ranks to start on this machine (1 to {} here)", mostRanks))
      ->check(integer(
          1, mostRanks,
          fmt::format("a number of ranks from 1 to {} (8 for each of the {} cores, and at most 64)", mostRanks, cores)))
      ->type_name("R")
      ->capture_default_str();
  app.add_option("--gpus", gpus,
                 "the GPU of each rank, by number [rank r has GPU r]; ranks that share one exchange over sockets, which is "
                 "slow (all of them do then): to try out what several ranks do where there are fewer GPUs")
      ->check(integer(0, 1023, "the number of a GPU"))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,..");
  app.add_option("--threads", threads, "threads of each rank; 0: the cores shared out among the ranks")
      ->check(integer(0, 1024, "a number of threads from 0 to 1024"))
      ->type_name("N")
      ->capture_default_str();
}

void RunFlags::finish() {
  if (options.device == "cuda" && !hasModule("msamp_device_cuda"))
    failUsage("--device cuda: this build has no CUDA device; it has: cpu. Build it where the CUDA toolkit is installed");
  if (options.device.starts_with("cuda:") && options.device.size() > 5)
    failUsage("--device {}: the kind of device alone is cuda; --gpus {} or CUDA_VISIBLE_DEVICES={} says which GPU",
              options.device, options.device.substr(5), options.device.substr(5));
  if (options.device != "cpu" && options.device != "cuda")
    failUsage("--device {}: no such device; there are: cpu, cuda", options.device);
  if (!gpus.empty() && options.device != "cuda")
    failUsage("--gpus: only with --device cuda");
  if (!gpus.empty() && gpus.size() != ranks)
    failUsage("--gpus names {} GPUs for {} ranks (--nproc): one each is needed", gpus.size(), ranks);
  options.gpus.assign(gpus.begin(), gpus.end());
  for (const std::string &source : sources)
    options.loader.sources.push_back(data::parseDataSource(source));
  options.loader.binType = dataType == "u8"    ? data::TokenType::U8
                           : dataType == "u32" ? data::TokenType::U32
                                               : data::TokenType::U16;
  options.ranks = static_cast<unsigned>(ranks);
  options.threads = static_cast<unsigned>(threads);
}

} // namespace msamp::tools
