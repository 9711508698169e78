#include "runtime/core/Safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runtime/core/Convert.h"
#include "runtime/core/Error.h"

namespace msamp::runtime {

using nlohmann::json;

namespace {

struct DtypeName {
  const char *name;
  Type type;
};
constexpr DtypeName dtypeNames[] = {{"F32", Type::F32}, {"BF16", Type::BF16}, {"F16", Type::F16}, {"F8_E4M3", Type::E4M3},
    {"F8_E5M2", Type::E5M2}, {"I64", Type::I64}, {"I32", Type::I32}, {"I8", Type::I8}, {"BOOL", Type::Bool}, {"U8", Type::U8}};

// Types of the format that nothing here computes with; their tensors can still be listed and skipped.
constexpr std::pair<const char *, unsigned> otherDtypes[] = {{"F64", 8}, {"U64", 8}, {"U32", 4}, {"U16", 2}, {"I16", 2}};

constexpr uint64_t maxHeader = 100'000'000; // as in the reference implementation

uint64_t readLittle64(const std::byte *data) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i)
    value = value << 8 | static_cast<uint64_t>(data[i]);
  return value;
}

uint64_t unsignedNumber(const json &value, const std::string &file, const std::string &name, const char *what) {
  if (!value.is_number_unsigned())
    failData("{}: tensor \"{}\": {} is not a number >= 0", file, name, what);
  return value.get<uint64_t>();
}

} // namespace

int64_t TensorView::elements() const {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

SafetensorsReader::SafetensorsReader(const std::filesystem::path &path) : path_(path), file_(path) {
  const std::string file = path.string();
  if (file_.size() < 8)
    failData("{}: {} bytes are too few for a safetensors file (is it cut off?)", file, file_.size());
  uint64_t headerBytes = readLittle64(file_.data());
  if (headerBytes > maxHeader || headerBytes > file_.size() - 8)
    failData("{}: its header would be {} bytes long but the file has {}; not a safetensors file, or cut off", file, headerBytes,
        file_.size());
  const char *text = reinterpret_cast<const char *>(file_.data()) + 8;
  // The parser keeps the last of equal keys; a file that has them is ambiguous, so they are refused.
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  auto watch = [&](int, json::parse_event_t event, json &value) {
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      duplicate = value.get<std::string>();
    return true;
  };
  json header;
  try {
    header = json::parse(text, text + headerBytes, watch);
  } catch (const json::exception &error) {
    failData("{}: its header is not JSON: {}", file, error.what());
  }
  if (!header.is_object())
    failData("{}: its header is not a JSON object", file);
  if (!duplicate.empty())
    failData("{}: its header has the key \"{}\" twice", file, duplicate);

  const uint64_t dataBytes = file_.size() - 8 - headerBytes;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object())
        failData("{}: __metadata__ is not an object", file);
      for (const auto &[key, value] : entry.items()) {
        if (!value.is_string())
          failData("{}: __metadata__ \"{}\" is not a string", file, key);
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
      failData("{}: tensor \"{}\" has no dtype, shape and data_offsets", file, name);
    const json &dtype = entry["dtype"], &shape = entry["shape"], &offsets = entry["data_offsets"];
    if (!dtype.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
      failData("{}: tensor \"{}\": dtype, shape or data_offsets are of the wrong kind", file, name);
    TensorView view;
    const std::string dtypeText = dtype.get<std::string>();
    uint64_t size = 0;
    for (const DtypeName &known : dtypeNames)
      if (dtypeText == known.name) {
        view.type = known.type;
        size = sizeOf(known.type);
      }
    for (const auto &[other, bytes] : otherDtypes)
      if (dtypeText == other)
        size = bytes;
    if (size == 0)
      failData("{}: tensor \"{}\" has the unknown dtype {}", file, name, dtypeText);
    uint64_t bytes = size;
    for (const json &dimension : shape) {
      uint64_t d = unsignedNumber(dimension, file, name, "a dimension");
      if (d > INT64_MAX || __builtin_mul_overflow(bytes, d, &bytes))
        failData("{}: tensor \"{}\": its shape is too large", file, name);
      view.shape.push_back(static_cast<int64_t>(d));
    }
    uint64_t begin = unsignedNumber(offsets[0], file, name, "an offset");
    uint64_t end = unsignedNumber(offsets[1], file, name, "an offset");
    if (begin > end || end > dataBytes)
      failData("{}: tensor \"{}\": bytes {} to {} are not within the {} bytes of data (is the file cut off?)", file, name, begin,
          end, dataBytes);
    if (end - begin != bytes)
      failData("{}: tensor \"{}\": {} bytes stored, but dtype and shape need {}", file, name, end - begin, bytes);
    view.bytes = bytes;
    view.fileOffset = 8 + headerBytes + begin;
    view.data = file_.data() + view.fileOffset;
    if (bytes > 0)
      ranges.emplace_back(begin, end);
    tensors_.emplace(name, std::move(view));
  }
  // As the format asks: no holes and no overlaps.
  std::sort(ranges.begin(), ranges.end());
  uint64_t position = 0;
  for (const auto &[begin, end] : ranges) {
    if (begin != position)
      failData("{}: its tensors {} at data byte {}", file, begin < position ? "overlap" : "leave a hole", position);
    position = end;
  }
  if (position != dataBytes)
    failData("{}: {} bytes follow the last tensor", file, dataBytes - position);
}

const TensorView *SafetensorsReader::find(const std::string &name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

const TensorView &SafetensorsReader::at(const std::string &name) const {
  const TensorView *view = find(name);
  if (!view)
    failData("{}: has no tensor \"{}\"", path_.string(), name);
  return *view;
}

std::vector<float> SafetensorsReader::readFloats(const std::string &name) const {
  const TensorView &view = at(name);
  std::vector<float> out(static_cast<size_t>(view.elements()));
  auto convert = [&]<class T>(T value) {
    for (size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&value, view.data + i * sizeof(T), sizeof(T)); // data need not be aligned
      out[i] = static_cast<float>(value);
    }
  };
  switch (view.type) {
  case Type::I64: convert(int64_t()); break;
  case Type::I32: convert(int32_t()); break;
  case Type::U8: convert(uint8_t()); break;
  default:
    if (!isFloat(view.type))
      failData("{}: tensor \"{}\" has no type that can be read as floats", path_.string(), name);
    decodeFloats(view.type, view.data, out.data(), view.elements());
  }
  return out;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path) : path_(std::move(path)) {
  temporary_ = path_;
  temporary_ += fmt::format(".{}.tmp", ::getpid());
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void SafetensorsWriter::declare(const std::string &name, Type type, std::vector<int64_t> shape) {
  if (descriptor_ >= 0)
    failInternal("{}: tensor \"{}\" declared after the first write", path_.string(), name);
  uint64_t bytes = sizeOf(type);
  for (int64_t d : shape)
    bytes *= static_cast<uint64_t>(d);
  entries_.push_back({name, type, std::move(shape), declared_, declared_ + bytes});
  declared_ += bytes;
}

static void writeAll(int descriptor, const char *data, size_t size, const std::string &path) {
  while (size > 0) {
    ssize_t done = ::write(descriptor, data, std::min<size_t>(size, size_t{1} << 30));
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      failIo("cannot write {}: {}", path, std::strerror(errno));
    data += done;
    size -= static_cast<size_t>(done);
  }
}

void SafetensorsWriter::begin() {
  json header = json::object();
  if (!metadata_.empty())
    header["__metadata__"] = metadata_;
  for (const Entry &entry : entries_) {
    const char *dtype = nullptr;
    for (const DtypeName &known : dtypeNames)
      if (known.type == entry.type)
        dtype = known.name;
    if (!dtype)
      failInternal("{}: tensor \"{}\" has a type that safetensors lacks", path_.string(), entry.name);
    if (header.contains(entry.name))
      failInternal("{}: tensor \"{}\" declared twice", path_.string(), entry.name);
    header[entry.name] = {{"dtype", dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0)
    failIo("cannot write {}: {}", path_.string(), std::strerror(errno));
  char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<char>(text.size() >> (8 * i));
  writeAll(descriptor_, length, 8, path_.string());
  writeAll(descriptor_, text.data(), text.size(), path_.string());
}

void SafetensorsWriter::write(std::span<const std::byte> data) {
  if (descriptor_ < 0)
    begin();
  if (written_ + data.size() > declared_)
    failInternal("{}: more data written than declared", path_.string());
  writeAll(descriptor_, reinterpret_cast<const char *>(data.data()), data.size(), path_.string());
  written_ += data.size();
}

void SafetensorsWriter::commit() {
  if (descriptor_ < 0)
    begin();
  if (written_ != declared_)
    failInternal("{}: {} bytes written of {} declared", path_.string(), written_, declared_);
  if (::fsync(descriptor_) != 0 && errno != EINVAL)
    failIo("cannot write {}: {}", path_.string(), std::strerror(errno));
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    failIo("cannot rename {} to {}: {}", temporary_.string(), path_.string(), std::strerror(errno));
  ::close(descriptor_);
  descriptor_ = -1;
}

} // namespace msamp::runtime
