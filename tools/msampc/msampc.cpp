// msampc: compiles the training step of an ONNX model into a plan.
#include "tools/msampc/Driver.h"

#include <csignal>

int main(int argc, char **argv) {
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe is a failed write, not a death
  auto parsed = msamp::msampc::parseOptions(argc, argv);
  if (auto *code = std::get_if<int>(&parsed))
    return *code;
  return msamp::msampc::compile(std::get<msamp::msampc::Options>(parsed));
}
