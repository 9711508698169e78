#include "frontend/MappedFile.h"

#include "frontend/Error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace msamp::frontend {

std::shared_ptr<MappedFile> MappedFile::open(const std::string &path, int exitCode) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw Error(exitCode, path + ": cannot be opened: " + std::strerror(errno));
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    ::close(fd);
    throw Error(exitCode, path + ": not a regular file");
  }
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->length = st.st_size;
  if (file->length) {
    void *p = mmap(nullptr, file->length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      int error = errno;
      ::close(fd);
      throw Error(exitCode, path + ": cannot be mapped: " + std::strerror(error));
    }
    file->begin = static_cast<const char *>(p);
  }
  ::close(fd);
  return file;
}

MappedFile::~MappedFile() {
  if (begin)
    munmap(const_cast<char *>(begin), length);
}

} // namespace msamp::frontend
