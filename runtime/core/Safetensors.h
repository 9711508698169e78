// Safetensors files: a strict, memory-mapped reader and a writer that commits by rename.
#ifndef MSAMP_RUNTIME_CORE_SAFETENSORS_H
#define MSAMP_RUNTIME_CORE_SAFETENSORS_H

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/MappedFile.h"
#include "runtime/core/Types.h"

namespace msamp::runtime {

struct TensorView {
  Type type = Type::None;
  std::vector<int64_t> shape;
  const std::byte *data = nullptr; // in the mapped file
  uint64_t bytes = 0;
  uint64_t fileOffset = 0;         // of data, for messages
  int64_t elements() const;
};

// Throws Error: 74 if the file cannot be read, 65 if it is malformed (says what and where).
class SafetensorsReader {
public:
  explicit SafetensorsReader(const std::filesystem::path &path);

  const std::filesystem::path &path() const { return path_; }
  // Sorted by name.
  const std::map<std::string, TensorView> &tensors() const { return tensors_; }
  const std::map<std::string, std::string> &metadata() const { return metadata_; }
  const TensorView *find(const std::string &name) const;
  // Error 65 naming the file if there is none.
  const TensorView &at(const std::string &name) const;
  // Values as FP32, from any float type (exact) or I64/I32/U8 (rounded); error 65 for others.
  std::vector<float> readFloats(const std::string &name) const;

private:
  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> metadata_;
};

// Declare all tensors, then write their bytes in that order, then commit. Until commit only a temporary file beside the
// target exists; the destructor removes it.
class SafetensorsWriter {
public:
  explicit SafetensorsWriter(std::filesystem::path path);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter &) = delete;
  SafetensorsWriter &operator=(const SafetensorsWriter &) = delete;

  void setMetadata(std::map<std::string, std::string> metadata) { metadata_ = std::move(metadata); }
  void declare(const std::string &name, Type type, std::vector<int64_t> shape);
  // The next declared tensor's data; its size must be exactly what was declared. May be called in pieces.
  void write(std::span<const std::byte> data);
  void writeFloats(std::span<const float> values) { write(std::as_bytes(values)); }
  // Syncs the file to disk and renames it into place.
  void commit();

private:
  struct Entry {
    std::string name;
    Type type;
    std::vector<int64_t> shape;
    uint64_t begin, end;
  };
  void begin();
  std::filesystem::path path_, temporary_;
  std::map<std::string, std::string> metadata_;
  std::vector<Entry> entries_;
  uint64_t declared_ = 0, written_ = 0;
  int descriptor_ = -1;
};

} // namespace msamp::runtime

#endif
