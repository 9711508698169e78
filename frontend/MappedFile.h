// A file mapped read-only, closed with its last user.
#ifndef MSAMP_FRONTEND_MAPPEDFILE_H
#define MSAMP_FRONTEND_MAPPEDFILE_H

#include <cstddef>
#include <memory>
#include <string>

namespace msamp::frontend {

class MappedFile {
public:
  // Throws Error with the given exit code if the file cannot be read.
  static std::shared_ptr<MappedFile> open(const std::string &path, int exitCode);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const char *data() const { return begin; }
  size_t size() const { return length; }

private:
  MappedFile() = default;
  const char *begin = nullptr;
  size_t length = 0;
};

} // namespace msamp::frontend

#endif
