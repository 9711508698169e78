// Reads NumPy's header (versions 1 to 3) by hand: it is a Python literal of three known keys.
#include "runtime/data/Array.h"

#include "runtime/core/Error.h"

#include <bit>
#include <cctype>
#include <cstring>
#include <optional>

namespace msamp::data {
using namespace runtime;

static_assert(std::endian::native == std::endian::little, "files are read as they lie: little-endian");

size_t sizeOf(Element element) {
  switch (element) {
  case Element::Bool:
  case Element::U8:
  case Element::I8:
    return 1;
  case Element::U16:
  case Element::I16:
  case Element::F16:
  case Element::BF16:
    return 2;
  case Element::U32:
  case Element::I32:
  case Element::F32:
    return 4;
  default:
    return 8;
  }
}

const char *nameOf(Element element) {
  const char *names[] = {"bool", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64"};
  return names[static_cast<int>(element)];
}

std::string shapeText(const std::vector<int64_t> &shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

int64_t Array::elements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

template <class T>
static T load(const std::byte *data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

int64_t Array::integer(int64_t index) const {
  switch (element) {
  case Element::Bool:
    return load<uint8_t>(data, index) != 0;
  case Element::U8:
    return load<uint8_t>(data, index);
  case Element::I8:
    return load<int8_t>(data, index);
  case Element::U16:
    return load<uint16_t>(data, index);
  case Element::I16:
    return load<int16_t>(data, index);
  case Element::U32:
    return load<uint32_t>(data, index);
  case Element::I32:
    return load<int32_t>(data, index);
  case Element::U64: {
    const auto value = load<uint64_t>(data, index);
    if (value > INT64_MAX)
      failData("{}: value {} at element {} is out of range: it is beyond 2^63 - 1", where, value, index);
    return static_cast<int64_t>(value);
  }
  case Element::I64:
    return load<int64_t>(data, index);
  default:
    failInternal("an integer was read from {} data", nameOf(element));
  }
}

static float halfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 31)
    return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) {
    float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

float Array::real(int64_t index) const {
  switch (element) {
  case Element::F32:
    return load<float>(data, index);
  case Element::BF16:
    return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(data, index)) << 16);
  case Element::F16:
    return halfToFloat(load<uint16_t>(data, index));
  case Element::F64:
    failInternal("a double was read as a float");
  default:
    return static_cast<float>(integer(index));
  }
}

// The text after 'KEY': in the header's dictionary.
static std::string_view valueOf(std::string_view header, std::string_view key, const std::string &path) {
  for (char quote : {'\'', '"'}) {
    std::string quoted = fmt::format("{0}{1}{0}", quote, key);
    size_t at = header.find(quoted);
    if (at == std::string_view::npos)
      continue;
    at = header.find(':', at + quoted.size());
    if (at == std::string_view::npos)
      break;
    header.remove_prefix(at + 1);
    while (!header.empty() && std::isspace(static_cast<unsigned char>(header.front())))
      header.remove_prefix(1);
    return header;
  }
  failData("{}: its NumPy header has no '{}': the file is damaged, or not written by numpy.save", path, key);
}

static std::optional<Element> elementOf(std::string_view code) {
  struct Row {
    std::string_view code;
    Element element;
  };
  static constexpr Row rows[] = {{"b1", Element::Bool}, {"u1", Element::U8},  {"i1", Element::I8},
                                 {"u2", Element::U16},  {"i2", Element::I16}, {"u4", Element::U32},
                                 {"i4", Element::I32},  {"u8", Element::U64}, {"i8", Element::I64},
                                 {"f2", Element::F16},  {"f4", Element::F32}, {"f8", Element::F64}};
  for (const Row &row : rows)
    if (row.code == code)
      return row.element;
  return std::nullopt;
}

Array openNpy(const std::string &path) {
  auto file = std::make_shared<MappedFile>(path);
  auto bytes = file->bytes();
  auto *chars = reinterpret_cast<const unsigned char *>(bytes.data());
  if (bytes.size() < 10 || std::memcmp(chars, "\x93NUMPY", 6) != 0)
    failData("{}: not a NumPy file (it does not start with \\x93NUMPY); write it with numpy.save", path);
  unsigned major = chars[6];
  if (major < 1 || major > 3)
    failData("{}: version {} of NumPy's format is not known (1 to 3 are)", path, major);
  size_t lengthBytes = major == 1 ? 2 : 4, length = 0;
  if (bytes.size() < 8 + lengthBytes)
    failData("{}: truncated inside its NumPy header ({} bytes)", path, bytes.size());
  for (size_t i = 0; i < lengthBytes; ++i)
    length |= static_cast<size_t>(chars[8 + i]) << (8 * i);
  size_t begin = 8 + lengthBytes;
  if (length > bytes.size() - begin)
    failData("{}: truncated inside its NumPy header ({} bytes, which says {})", path, bytes.size(), begin + length);
  std::string_view header(reinterpret_cast<const char *>(chars) + begin, length);

  Array array;
  array.where = path;
  std::string_view descr = valueOf(header, "descr", path);
  size_t end = descr.size() > 1 ? descr.find(descr.front(), 1) : std::string_view::npos;
  std::string_view code = end == std::string_view::npos ? std::string_view() : descr.substr(1, end - 1);
  if (!code.empty() && code.front() == '>')
    failData("{}: its values are big-endian ({}); convert them: a.astype(a.dtype.newbyteorder('<'))", path, code);
  auto element = elementOf(code.size() == 3 ? code.substr(1) : std::string_view());
  if (!element)
    failData("{}: values of NumPy type {} cannot be read (bool, integers and floats can)", path,
             code.empty() ? descr.substr(0, 24) : code);
  array.element = *element;
  std::string_view order = valueOf(header, "fortran_order", path);
  if (order.starts_with("True"))
    failData("{}: it is stored column by column; save numpy.ascontiguousarray(a) instead", path);
  if (!order.starts_with("False"))
    failData("{}: fortran_order in its NumPy header is neither True nor False: the file is damaged", path);

  std::string_view shape = valueOf(header, "shape", path);
  size_t close = shape.find(')');
  if (shape.empty() || shape.front() != '(' || close == std::string_view::npos ||
      shape.substr(1, close - 1).find_first_not_of("0123456789, ") != std::string_view::npos)
    failData("{}: the shape in its NumPy header cannot be read: the file is damaged", path);
  uint64_t available = bytes.size() - begin - length, needed = sizeOf(array.element);
  for (size_t i = 1; i < close; ++i) {
    if (!std::isdigit(static_cast<unsigned char>(shape[i])))
      continue;
    int64_t extent = 0;
    for (; i < close && std::isdigit(static_cast<unsigned char>(shape[i])); ++i)
      if (__builtin_mul_overflow(extent, 10, &extent) || __builtin_add_overflow(extent, shape[i] - '0', &extent))
        failData("{}: an extent in its NumPy header is beyond 64 bits", path);
    array.shape.push_back(extent);
    if (__builtin_mul_overflow(needed, static_cast<uint64_t>(extent), &needed))
      failData("{}: shape {} is beyond 64 bits", path, shapeText(array.shape));
  }
  if (needed > available)
    failData("{}: shape {} of {} needs {} bytes, {} are there: the file is truncated", path, shapeText(array.shape),
             nameOf(array.element), needed, available);
  array.data = bytes.data() + begin + length;
  array.owner = file;
  return array;
}

Array fromSafetensors(const std::shared_ptr<SafetensorsReader> &reader, const std::string &tensor) {
  const TensorView &view = reader->at(tensor);
  Array array;
  array.where = fmt::format("{} (tensor \"{}\")", reader->path().string(), tensor);
  switch (view.type) {
  case Type::F32:
    array.element = Element::F32;
    break;
  case Type::BF16:
    array.element = Element::BF16;
    break;
  case Type::F16:
    array.element = Element::F16;
    break;
  case Type::I64:
    array.element = Element::I64;
    break;
  case Type::I32:
    array.element = Element::I32;
    break;
  case Type::I8:
    array.element = Element::I8;
    break;
  case Type::U8:
    array.element = Element::U8;
    break;
  case Type::Bool:
    array.element = Element::Bool;
    break;
  default:
    failData("{}: its type cannot be used as data; convert it to F32, F16, BF16, I64, I32, I8, U8 or BOOL", array.where);
  }
  array.shape = view.shape;
  array.data = view.data;
  array.owner = reader;
  return array;
}

} // namespace msamp::data
