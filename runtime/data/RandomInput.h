// Inputs filled with random values: indices within their bound, normal numbers. A row is a function of the seed and its
// sample number, as rows from files are.
#ifndef MSAMP_RUNTIME_DATA_RANDOM_INPUT_H
#define MSAMP_RUNTIME_DATA_RANDOM_INPUT_H

#include "runtime/plan/PlanIO.h"

#include <cstdint>

namespace msamp::data {

struct RandomInput {
  unsigned input;
  unsigned stream; // inputs of one stream see the same numbers, ..
  uint64_t shift;  // .. this many positions on

  // Row `row` of `rows` of the input that starts at `out`. Integers without a bound and booleans are 1: they are masks, for all
  // we know. An input that has no rows of samples is filled along with row 0.
  void fillRow(const plan::Plan &plan, uint64_t seed, uint64_t sample, uint64_t row, uint64_t rows, void *out) const;
  // Of the whole input.
  uint64_t elements(const plan::Plan &plan) const;
};

} // namespace msamp::data

#endif
