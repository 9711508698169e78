#include "runtime/device/cuda/MatMulTuning.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace msamp::runtime::cuda {

namespace {

using Json = nlohmann::json;

constexpr int formatVersion = 1;

std::string hexOf(const cublasLtMatmulAlgo_t &algorithm) {
  std::string text;
  for (uint64_t word : algorithm.data)
    text += fmt::format("{:016x}", word);
  return text;
}

bool fromHex(const std::string &text, cublasLtMatmulAlgo_t &algorithm) {
  constexpr size_t words = sizeof algorithm.data / sizeof *algorithm.data;
  if (text.size() != words * 16)
    return false;
  for (size_t i = 0; i < words; ++i) {
    uint64_t word = 0;
    const char *from = text.data() + i * 16;
    if (std::from_chars(from, from + 16, word, 16).ptr != from + 16)
      return false;
    algorithm.data[i] = word;
  }
  return true;
}

std::optional<MatMulTuning::Choice> choiceOf(const Json &entry) {
  MatMulTuning::Choice choice;
  if (!entry.is_object() || !fromHex(entry.value("algorithm", ""), choice.algorithm))
    return std::nullopt;
  choice.workspace = entry.value("workspace", uint64_t{0});
  choice.microseconds = entry.value("us", 0.0);
  return choice;
}

// While it lives no other process reads the folder's file to write it anew.
class FolderLock {
public:
  explicit FolderLock(const std::filesystem::path &folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_ >= 0)
      ::flock(folder_, LOCK_EX);
  }
  ~FolderLock() {
    if (folder_ >= 0)
      ::close(folder_);
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

private:
  int folder_;
};

// The file as JSON; an empty object if there is none or it is damaged.
Json load(const std::filesystem::path &file) {
  std::ifstream stream(file);
  Json json = stream ? Json::parse(stream, nullptr, false) : Json();
  if (!json.is_object() || json.value("format", 0) != formatVersion || !json.contains("machines") ||
      !json["machines"].is_object())
    return Json{{"format", formatVersion}, {"machines", Json::object()}};
  return json;
}

} // namespace

MatMulTuning::MatMulTuning(std::filesystem::path file, std::string machine)
    : file_(std::move(file)), machine_(std::move(machine)) {
  if (file_.empty())
    return;
  try {
    const Json json = load(file_);
    const auto entries = json["machines"].find(machine_);
    if (entries == json["machines"].end() || !entries->is_object())
      return;
    for (const auto &[key, entry] : entries->items())
      if (auto choice = choiceOf(entry))
        choices_.emplace(key, *choice);
  } catch (const Json::exception &) {
    choices_.clear(); // of other types than expected: tuned again
  }
}

std::optional<MatMulTuning::Choice> MatMulTuning::find(const std::string &key) const {
  auto known = choices_.find(key);
  return known == choices_.end() ? std::nullopt : std::optional(known->second);
}

MatMulTuning::Choice MatMulTuning::add(const std::string &key, const Choice &choice, bool anew) {
  Choice &kept = choices_[key] = choice;
  if (file_.empty())
    return kept;
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  const FolderLock lock(file_.parent_path());
  try {
    Json json = load(file_);
    Json &entries = json["machines"][machine_];
    if (!entries.is_object())
      entries = Json::object();
    if (auto theirs = !anew && entries.contains(key) ? choiceOf(entries[key]) : std::nullopt)
      return kept = *theirs;
    entries[key] = {{"algorithm", hexOf(choice.algorithm)}, {"workspace", choice.workspace}, {"us", choice.microseconds}};
    const std::filesystem::path temporary = file_.string() + fmt::format(".{}.tmp", ::getpid());
    std::ofstream stream(temporary);
    stream << json.dump(1) << '\n';
    stream.close();
    if (stream)
      std::filesystem::rename(temporary, file_, error);
    if (!stream || error)
      std::filesystem::remove(temporary, error);
  } catch (const Json::exception &) {
  }
  return kept;
}

std::filesystem::path MatMulTuning::fileIn(const std::filesystem::path &folder) {
  if (!folder.empty() && ::access(folder.c_str(), W_OK | X_OK) == 0)
    return folder / "matmul-tuning.json";
  if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::filesystem::path(cache) / "msamp" / "matmul-tuning.json";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::filesystem::path(home) / ".cache" / "msamp" / "matmul-tuning.json";
  return {};
}

} // namespace msamp::runtime::cuda
