// A file mapped read-only into memory.
#ifndef MSAMP_RUNTIME_CORE_MAPPED_FILE_H
#define MSAMP_RUNTIME_CORE_MAPPED_FILE_H

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace msamp::runtime {

class MappedFile {
public:
  MappedFile() = default;
  // Error 74 if it cannot be opened or mapped. An empty file maps to an empty span.
  explicit MappedFile(const std::filesystem::path &path);
  ~MappedFile();
  MappedFile(MappedFile &&other) noexcept { swap(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    swap(other);
    return *this;
  }

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::byte *data() const { return data_; }
  uint64_t size() const { return size_; }

private:
  void swap(MappedFile &other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  const std::byte *data_ = nullptr;
  uint64_t size_ = 0;
};

} // namespace msamp::runtime

#endif
