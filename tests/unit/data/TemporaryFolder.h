// A folder for a test's files, gone afterwards.
#ifndef MSAMP_TESTS_UNIT_DATA_TEMPORARY_FOLDER_H
#define MSAMP_TESTS_UNIT_DATA_TEMPORARY_FOLDER_H

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

class TemporaryFolder {
public:
  TemporaryFolder() : path((std::filesystem::temp_directory_path() / "msamp-test-XXXXXX").string()) {
    if (!mkdtemp(path.data()))
      std::abort();
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }

  std::string write(const std::string &name, const std::string &content) const {
    std::string file = path + "/" + name;
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

private:
  std::string path;
};

#endif
