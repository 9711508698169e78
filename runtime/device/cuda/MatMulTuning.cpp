#include "runtime/device/cuda/MatMulTuning.h"

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
    for (const auto &[key, entry] : entries->items()) {
      Choice choice;
      if (entry.is_object() && fromHex(entry.value("algorithm", ""), choice.algorithm)) {
        choice.workspace = entry.value("workspace", uint64_t{0});
        choice.microseconds = entry.value("us", 0.0);
        choices_.emplace(key, choice);
      }
    }
  } catch (const Json::exception &) {
    choices_.clear(); // of other types than expected: tuned again
  }
}

std::optional<MatMulTuning::Choice> MatMulTuning::find(const std::string &key) const {
  auto known = choices_.find(key);
  return known == choices_.end() ? std::nullopt : std::optional(known->second);
}

void MatMulTuning::add(const std::string &key, const Choice &choice) {
  choices_[key] = choice;
  if (file_.empty())
    return;
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  try {
    // What other processes have found meanwhile is kept.
    Json json = load(file_);
    Json &entries = json["machines"][machine_];
    if (!entries.is_object())
      entries = Json::object();
    for (const auto &[name, own] : choices_)
      entries[name] = {{"algorithm", hexOf(own.algorithm)}, {"workspace", own.workspace}, {"us", own.microseconds}};
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
