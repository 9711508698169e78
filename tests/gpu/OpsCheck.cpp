// msamp-ops-check: products, attention, scatter-adds, convolutions and pools of a GPU against those of the CPU, with their
// rates. One line a case.
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "tests/gpu/CheckTensor.h"
#include "tests/gpu/RunCheck.h"

int main(int argc, char **argv) {
  using namespace msamp;
  test::Report report;
  std::string kind = "cuda";
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--quick")
      report.quick = true;
    else if (option == "--any-order")
      report.anyOrder = true;
    else if (option == "--device" && i + 1 < argc)
      kind = argv[++i];
    else if (option.starts_with("--") || !report.only.empty()) {
      fmt::print(stderr, "usage: msamp-ops-check [--quick] [--any-order] [--device cuda] [PART-OF-A-NAME]\n");
      return 64;
    } else {
      report.only = option;
    }
  }
  return gputest::runCheck("msamp-ops-check", [&] {
    auto cpu = runtime::makeDevice({.kind = "cpu"}),
         gpu = runtime::makeDevice({.kind = kind, .deterministic = !report.anyOrder});
    fmt::print("{} against {}\n", gpu->description(), cpu->description());
    test::checkMatMul({*cpu, *gpu}, report);
    test::checkAttention({*cpu, *gpu}, report);
    test::checkScatter({*cpu, *gpu}, report);
    test::checkWindows({*cpu, *gpu}, report);
    fmt::print("ops: {} checked, {} wrong\n", report.checked, report.wrong);
    return report.wrong == 0 ? 0 : 1;
  });
}
