// An array in a mapped file (.npy or a tensor of a .safetensors): its type, shape and where its bytes are.
#ifndef MSAMP_RUNTIME_DATA_ARRAY_H
#define MSAMP_RUNTIME_DATA_ARRAY_H

#include "runtime/core/MappedFile.h"
#include "runtime/core/Safetensors.h"
#include "runtime/core/Types.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace msamp::data {

// Element types that files hold; more than the runtime computes with.
enum class Element { Bool, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64 };
size_t sizeOf(Element element);
const char *nameOf(Element element);

struct Array {
  Element element = Element::F32;
  std::vector<int64_t> shape;
  const std::byte *data = nullptr;
  std::string where;                 // FILE or FILE (tensor NAME), for messages
  std::shared_ptr<const void> owner; // keeps the mapping alive

  int64_t elements() const;
  // An integer element; only for integer and boolean arrays.
  int64_t integer(int64_t index) const;
  // Any element but a double, exactly.
  float real(int64_t index) const;
};

// Opens a NumPy file. Throws Error: 74 if it cannot be read, 65 if it is malformed, in column-major or big-endian
// order.
Array openNpy(const std::string &path);

// A tensor of an open safetensors file.
Array fromSafetensors(const std::shared_ptr<runtime::SafetensorsReader> &reader, const std::string &tensor);

// "[2, 3]".
std::string shapeText(const std::vector<int64_t> &shape);

} // namespace msamp::data

#endif
