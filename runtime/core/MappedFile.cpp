#include "runtime/core/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/core/Error.h"

namespace msamp::runtime {

MappedFile::MappedFile(const std::filesystem::path &path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    failIo("cannot open {}: {}", path.string(), std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    failIo("cannot read {}: not a regular file", path.string());
  }
  size_ = static_cast<uint64_t>(status.st_size);
  if (size_ > 0) {
    void *address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    int error = errno;
    ::close(descriptor);
    if (address == MAP_FAILED) {
      size_ = 0;
      failIo("cannot map {}: {}", path.string(), std::strerror(error));
    }
    data_ = static_cast<const std::byte *>(address);
  } else {
    ::close(descriptor);
  }
}

MappedFile::~MappedFile() {
  if (data_)
    ::munmap(const_cast<std::byte *>(data_), size_);
}

} // namespace msamp::runtime
