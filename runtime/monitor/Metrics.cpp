// Writing metrics.jsonl.
#include "runtime/monitor/Metrics.h"

#include "runtime/core/Error.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace msamp::monitor {
using namespace runtime;

static std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null";
}

std::string toJson(const StepMetrics &metrics) {
  return fmt::format("{{\"step\": {}, \"loss\": {}, \"lr\": {}, \"grad_norm\": {}, \"tokens\": {}, "
                     "\"tokens_per_second\": {}, \"seconds\": {}, \"skipped\": {}, \"memory_bytes\": {}}}\n",
                     metrics.step, number(metrics.loss), number(metrics.lr), number(metrics.gradNorm), metrics.tokens,
                     number(metrics.tokensPerSecond), number(metrics.seconds), metrics.skipped ? 1 : 0,
                     metrics.memoryBytes);
}

MetricsFile::MetricsFile(const std::string &folder) : path((std::filesystem::path(folder) / "metrics.jsonl").string()) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    failIo("--log-dir {}: the folder cannot be made: {}", folder, error.message());
  for (unsigned number = 1; std::filesystem::exists(path, error) && kept.empty(); ++number) {
    const auto name = std::filesystem::path(folder) / fmt::format("metrics.{}.jsonl", number);
    if (std::filesystem::exists(name, error))
      continue;
    std::filesystem::rename(path, name, error);
    if (error)
      failIo("{}: cannot be kept as {}: {}", path, name.string(), error.message());
    kept = name.string();
  }
  file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0)
    failIo("{}: cannot be written: {}", path, std::strerror(errno));
}

MetricsFile::~MetricsFile() {
  if (file >= 0)
    close(file);
}

void MetricsFile::append(const StepMetrics &metrics) {
  std::string line = toJson(metrics);
  const off_t start = lseek(file, 0, SEEK_END);
  size_t done = 0;
  while (done < line.size()) {
    ssize_t written = write(file, line.data() + done, line.size() - done);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0) {
      const int reason = errno;
      // Whole lines only: what was written of this one is taken back.
      if (start < 0 || ftruncate(file, start) != 0)
        failIo("{}: cannot be written, its last line is cut off: {}", path, std::strerror(reason));
      failIo("{}: cannot be written: {}", path, std::strerror(reason));
    }
    done += static_cast<size_t>(written);
  }
}

} // namespace msamp::monitor
