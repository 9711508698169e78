// Copies values of a file into the buffer of a plan's input: converts where nothing is lost, checks ranges.
#ifndef MSAMP_RUNTIME_DATA_INPUT_COPY_H
#define MSAMP_RUNTIME_DATA_INPUT_COPY_H

#include "runtime/data/Array.h"
#include "runtime/plan/PlanIO.h"

namespace msamp::data {

// "input "labels" (i64 [16, 128])", for messages.
std::string describe(const plan::Input &input);

std::vector<int64_t> shapeOf(const plan::Input &input);

// Throws Error 65 unless the array's type can become the input's without loss: integers of any width for integers,
// F32, F16 or BF16 for F32, bool or u8 for bool.
void checkType(const plan::Input &input, const Array &array);

// Elements [begin, begin + count) of the array to `out`, in the input's type. Throws Error 65 naming input, position,
// value, file and bound when an index is out of range.
void copyElements(const plan::Input &input, const Array &array, int64_t begin, int64_t count, void *out);

// The range check of copyElements alone.
void checkRange(const plan::Input &input, const Array &array, int64_t begin, int64_t count);

} // namespace msamp::data

#endif
