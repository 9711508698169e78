// The frame of a program that checks a GPU's work.
#ifndef MSAMP_TESTS_GPU_RUNCHECK_H
#define MSAMP_TESTS_GPU_RUNCHECK_H

#include "runtime/core/Error.h"
#include "tests/gpu/Gpu.h"

#include <iostream>

namespace msamp::gputest {

// Runs the body; what it throws becomes a message on standard error and an exit code. A GPU that fails is one to try again.
template <typename Body>
int runCheck(const char *name, Body &&body) {
  auto told = [&](int code, const char *kind, const char *message) {
    std::cerr << name << ": error: " << kind << message << std::endl;
    return code;
  };
  try {
    return body();
  } catch (const runtime::Error &e) {
    return told(e.exitCode(), "", e.what());
  } catch (const GpuError &e) {
    return told(static_cast<int>(runtime::Exit::TryAgain), "", e.what());
  } catch (const std::exception &e) {
    return told(static_cast<int>(runtime::Exit::Internal), "internal error: ", e.what());
  }
}

} // namespace msamp::gputest

#endif
