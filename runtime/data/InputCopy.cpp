// Conversions and range checks for one input of the plan.
#include "runtime/data/InputCopy.h"

#include "runtime/core/Error.h"

#include <cstring>

namespace msamp::data {
using namespace runtime;

static Type typeOf(const plan::Input &input) {
  return static_cast<Type>(input.type());
}

std::vector<int64_t> shapeOf(const plan::Input &input) {
  return {input.shape().begin(), input.shape().end()};
}

std::string describe(const plan::Input &input) {
  return fmt::format("input \"{}\" ({} {})", input.name(), nameOf(typeOf(input)), shapeText(shapeOf(input)));
}

static bool isInteger(Element element) {
  return element >= Element::U8 && element <= Element::I64;
}

void checkType(const plan::Input &input, const Array &array) {
  bool fits = false;
  switch (typeOf(input)) {
  case Type::I64:
  case Type::I32:
  case Type::I8:
  case Type::U8:
    fits = isInteger(array.element);
    break;
  case Type::Bool:
    fits = array.element == Element::Bool || array.element == Element::U8;
    break;
  case Type::F32:
    fits = array.element == Element::F32 || array.element == Element::F16 || array.element == Element::BF16;
    break;
  default:
    break;
  }
  if (!fits)
    failData("{}: expected values of type {}, found {} in {}; convert the file", describe(input), nameOf(typeOf(input)),
             nameOf(array.element), array.where);
}

template <class T>
static void narrow(const plan::Input &input, const Array &array, int64_t begin, int64_t count, T *out) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = array.integer(begin + i);
    out[i] = static_cast<T>(value);
    if (static_cast<int64_t>(out[i]) != value)
      failData("{}: value {} at element {} of {} does not fit into {}", describe(input), value, begin + i, array.where,
               nameOf(typeOf(input)));
  }
}

void checkRange(const plan::Input &input, const Array &array, int64_t begin, int64_t count) {
  if (input.bound() <= 0 || !(isInteger(array.element)))
    return;
  for (int64_t i = begin; i < begin + count; ++i) {
    int64_t value = array.integer(i);
    if ((value >= 0 && value < input.bound()) || (input.allow_ignore() && value == -100))
      continue;
    failData("{}: value {} at element {} of {} is out of range: it must be in [0, {}){}", describe(input), value, i,
             array.where, input.bound(), input.allow_ignore() ? ", or -100 to be ignored" : "");
  }
}

void copyElements(const plan::Input &input, const Array &array, int64_t begin, int64_t count, void *out) {
  checkRange(input, array, begin, count);
  switch (typeOf(input)) {
  case Type::I64:
    if (array.element == Element::I64)
      std::memcpy(out, array.data + begin * 8, static_cast<size_t>(count) * 8);
    else
      narrow(input, array, begin, count, static_cast<int64_t *>(out));
    break;
  case Type::I32:
    narrow(input, array, begin, count, static_cast<int32_t *>(out));
    break;
  case Type::I8:
    narrow(input, array, begin, count, static_cast<int8_t *>(out));
    break;
  case Type::U8:
    narrow(input, array, begin, count, static_cast<uint8_t *>(out));
    break;
  case Type::Bool:
    for (int64_t i = 0; i < count; ++i)
      static_cast<uint8_t *>(out)[i] = array.integer(begin + i) != 0;
    break;
  case Type::F32:
    if (array.element == Element::F32)
      std::memcpy(out, array.data + begin * 4, static_cast<size_t>(count) * 4);
    else
      for (int64_t i = 0; i < count; ++i)
        static_cast<float *>(out)[i] = array.real(begin + i);
    break;
  default:
    failInternal("{}: inputs of this type cannot be filled", describe(input));
  }
}

} // namespace msamp::data
