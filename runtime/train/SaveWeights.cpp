// Reads one parameter at a time, so that no second copy of the model is needed.
#include "runtime/train/SaveWeights.h"

#include "runtime/core/Error.h"
#include "runtime/core/Safetensors.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <unistd.h>
#include <vector>

namespace msamp::train {
using namespace runtime;
namespace fs = std::filesystem;

// What is written takes the place of the file that links lead to, and not of a link.
static fs::path fileAt(const std::string &path) {
  std::error_code error;
  fs::path file = path;
  for (int links = 0; links < 40 && fs::is_symlink(file, error); ++links)
    file = file.parent_path() / fs::read_symlink(file, error);
  return file;
}

void checkCanSave(const std::string &path) {
  std::error_code error;
  const fs::path file = fileAt(path);
  if (fs::is_directory(file, error))
    failIo("--save {}: is a folder; give the name of a file in it", path);
  if (fs::exists(file, error) && !fs::is_regular_file(file, error))
    failIo("--save {}: is a device, a pipe or a socket, and weights would take its place; give the name of a file", path);
  fs::path folder = file.parent_path();
  if (folder.empty())
    folder = ".";
  if (!fs::is_directory(folder, error))
    failIo("--save {}: there is no folder {}; make it first", path, folder.string());
  std::string probe = (folder / ".msamp-save-XXXXXX").string();
  const int probing = mkstemp(probe.data());
  if (probing < 0)
    failIo("--save {}: nothing can be written into {}: {}", path, folder.string(), std::strerror(errno));
  close(probing);
  unlink(probe.c_str());
}

namespace {
struct Entry {
  std::string name;
  std::vector<int64_t> shape;
};
} // namespace

static std::vector<Entry> entriesOf(const plan::Plan &plan) {
  std::vector<Entry> entries;
  for (const plan::Parameter &parameter : plan.parameters()) {
    std::vector<int64_t> shape(parameter.shape().begin(), parameter.shape().end());
    entries.push_back({parameter.name(), shape});
    for (const plan::Twin &twin : parameter.twins()) {
      std::vector<int64_t> layout = shape;
      if (twin.transposed())
        std::reverse(layout.begin(), layout.end());
      entries.push_back({twin.name(), layout});
    }
  }
  return entries;
}

void saveWeights(Executor &executor, const std::string &path) {
  bool writes = executor.communicator().rank() == 0;
  std::vector<Entry> entries = entriesOf(executor.plan().plan);
  std::optional<SafetensorsWriter> writer;
  if (writes) {
    writer.emplace(fileAt(path));
    writer->setMetadata(
        {{"format", "pt"}, {"producer", "msamp-run"}, {"steps", std::to_string(executor.appliedSteps())}});
    for (const Entry &entry : entries)
      writer->declare(entry.name, Type::F32, entry.shape);
  }
  std::vector<float> values;
  for (const Entry &entry : entries) {
    executor.readParameter(entry.name, values);
    if (writes)
      writer->writeFloats(values);
  }
  if (writes)
    writer->commit();
}

} // namespace msamp::train
