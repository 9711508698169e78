// Expects an Error with an exit code and a part of its message.
#ifndef MSAMP_TESTS_EXPECTERROR_H
#define MSAMP_TESTS_EXPECTERROR_H

#include <gtest/gtest.h>

#include <string>

#include "runtime/core/Error.h"

namespace msamp::test {

template <class Body> void expectError(int exitCode, const std::string &part, Body &&body) {
  try {
    body();
    ADD_FAILURE() << "no error; expected one with \"" << part << "\"";
  } catch (const runtime::Error &error) {
    EXPECT_EQ(error.exitCode(), exitCode) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

} // namespace msamp::test

#endif
