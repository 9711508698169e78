#include "frontend/WeightSource.h"

#include "frontend/ElementType.h"
#include "frontend/LoadModel.h"
#include "frontend/MappedFile.h"

#include <onnx/onnx_pb.h>

#include <charconv>
#include <cstring>
#include <filesystem>

namespace fs = std::filesystem;

namespace msamp::frontend {
namespace {

// The number in an external data entry; ONNX writes them as decimal strings.
int64_t parseNumber(const std::string &text, const std::string &key, const std::string &what) {
  int64_t value = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw Error(kBadData, what + ": external data has " + key + " \"" + text + "\", expected a number of bytes");
  return value;
}

template <class From, class To>
void convertField(const google::protobuf::RepeatedField<From> &field, std::vector<char> &out) {
  out.resize(field.size() * sizeof(To));
  for (int i = 0; i < field.size(); ++i) {
    To v = static_cast<To>(field[i]);
    std::memcpy(out.data() + i * sizeof(To), &v, sizeof(To));
  }
}

// Values from the typed fields of a tensor, in the layout of raw_data.
std::vector<char> typedData(const onnx::TensorProto &t) {
  std::vector<char> out;
  switch (t.data_type()) {
  case onnx::TensorProto::FLOAT:
    convertField<float, float>(t.float_data(), out);
    break;
  case onnx::TensorProto::DOUBLE:
    convertField<double, double>(t.double_data(), out);
    break;
  case onnx::TensorProto::INT64:
    convertField<int64_t, int64_t>(t.int64_data(), out);
    break;
  case onnx::TensorProto::UINT64:
    convertField<uint64_t, uint64_t>(t.uint64_data(), out);
    break;
  case onnx::TensorProto::UINT32:
    convertField<uint64_t, uint32_t>(t.uint64_data(), out);
    break;
  case onnx::TensorProto::INT32:
    convertField<int32_t, int32_t>(t.int32_data(), out);
    break;
  default:
    // All narrower types are kept in int32_data.
    if (elementSize(t.data_type()) == 2)
      convertField<int32_t, uint16_t>(t.int32_data(), out);
    else
      convertField<int32_t, uint8_t>(t.int32_data(), out);
  }
  return out;
}

size_t neededBytes(const onnx::TensorProto &t, const std::string &what) {
  int size = elementSize(t.data_type());
  if (!size)
    throw Error(kBadData, what + " has element type " + elementName(t.data_type()) + ", which is not supported");
  uint64_t n = size;
  for (int64_t d : t.dims()) {
    if (d < 0 || (d && n > (uint64_t(1) << 62) / d))
      throw Error(kBadData, what + " has an impossible dimension " + std::to_string(d));
    n *= d;
  }
  return n;
}

} // namespace

std::unique_ptr<WeightSource> WeightSource::open(const std::string &modelPath) {
  return std::make_unique<WeightSource>(modelPath, parseModel(modelPath));
}

WeightSource::WeightSource(const std::string &modelPath, std::shared_ptr<const onnx::ModelProto> m)
    : modelPath(modelPath), folder(fs::path(modelPath).parent_path().string()), model(std::move(m)) {
  if (folder.empty())
    folder = std::string(1, '.');
  for (const auto &t : model->graph().initializer())
    tensors[t.name()] = &t;
}

WeightSource::~WeightSource() = default;

WeightSource::External WeightSource::locate(const onnx::TensorProto &t, const std::string &what) const {
  External e;
  std::string location;
  int64_t length = -1;
  for (const auto &entry : t.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    if (entry.key() == "offset")
      e.offset = parseNumber(entry.value(), "offset", what);
    if (entry.key() == "length")
      length = parseNumber(entry.value(), "length", what);
  }
  e.bytes = neededBytes(t, what);
  if (location.empty())
    throw Error(kBadData, what + " is external data without a location");
  fs::path path(location);
  bool leaves = path.is_absolute();
  for (const auto &part : path)
    leaves |= part == "..";
  if (leaves)
    throw Error(kBadData, what + ": external data at \"" + location +
                              "\" lies outside of the model's folder; ONNX allows " + "only relative paths within it");
  if (length >= 0 && static_cast<size_t>(length) != e.bytes)
    throw Error(kBadData, what + " needs " + std::to_string(e.bytes) +
                              " bytes, but its external data has a length of " + std::to_string(length));
  e.file = (fs::path(folder) / path).string();
  return e;
}

std::shared_ptr<MappedFile> WeightSource::map(const std::string &file, const std::string &what) const {
  auto &slot = mapped[file];
  if (slot)
    return slot;
  std::error_code error;
  fs::path real = fs::canonical(file, error);
  if (error) {
    mapped.erase(file);
    throw Error(kBadData, what + " is stored in " + file + ", which cannot be opened (" + error.message() +
                              "); put the file there, or give --init to start from random values");
  }
  fs::path root = fs::canonical(folder, error);
  auto inside = std::mismatch(root.begin(), root.end(), real.begin(), real.end());
  if (error || inside.first != root.end()) {
    mapped.erase(file);
    throw Error(kBadData, what + ": " + file + " is a link to " + real.string() + ", outside of the model's folder");
  }
  slot = MappedFile::open(file, kBadData);
  return slot;
}

void WeightSource::check(const std::string &name) const {
  auto it = tensors.find(name);
  if (it == tensors.end())
    throw Error(kBadData, modelPath + ": no initializer named " + name);
  std::string what = modelPath + ": initializer " + name;
  const auto &t = *it->second;
  if (t.data_location() != onnx::TensorProto::EXTERNAL) {
    view(t, what);
    return;
  }
  External e = locate(t, what);
  auto file = map(e.file, what);
  if (static_cast<uint64_t>(e.offset) + e.bytes > file->size())
    throw Error(kBadData, what + " needs bytes " + std::to_string(e.offset) + " to " +
                              std::to_string(e.offset + e.bytes) + " of " + e.file + ", which has only " +
                              std::to_string(file->size()));
}

WeightSource::View WeightSource::get(const std::string &name) const {
  check(name);
  return view(*tensors.at(name), modelPath + ": initializer " + name);
}

WeightSource::View WeightSource::view(const onnx::TensorProto &t, const std::string &what) const {
  View v;
  v.onnxType = t.data_type();
  v.dims.assign(t.dims().begin(), t.dims().end());
  v.bytes = neededBytes(t, what);
  size_t present;
  if (t.data_location() == onnx::TensorProto::EXTERNAL) {
    External e = locate(t, what);
    auto file = map(e.file, what);
    present = file->size() > static_cast<uint64_t>(e.offset) ? file->size() - e.offset : 0;
    v.data = file->data() + e.offset;
    v.keepAlive = file;
  } else if (t.has_raw_data()) {
    present = t.raw_data().size();
    v.data = t.raw_data().data();
    v.keepAlive = model;
  } else {
    auto copy = std::make_shared<std::vector<char>>(typedData(t));
    present = copy->size();
    v.data = copy->data();
    v.keepAlive = copy;
  }
  bool external = t.data_location() == onnx::TensorProto::EXTERNAL;
  if (present < v.bytes || (!external && present != v.bytes))
    throw Error(kBadData, what + " needs " + std::to_string(v.bytes) + " bytes, but " + std::to_string(present) +
                              " are present: the file is damaged or truncated");
  return v;
}

} // namespace msamp::frontend
