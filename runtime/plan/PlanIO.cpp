#include "runtime/plan/PlanIO.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <openssl/evp.h>
#include <span>
#include <unistd.h>

#include "runtime/core/Error.h"
#include "runtime/core/MappedFile.h"
#include "runtime/plan/PlanCheck.h"

namespace msamp::runtime {

namespace {

using Digest = std::array<unsigned char, 32>;

Digest sha256(std::span<const std::byte> data) {
  Digest digest;
  if (EVP_Digest(data.data(), data.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    failInternal("SHA-256 failed");
  return digest;
}

// Field 100, length-delimited, 32 bytes: always the last 35 bytes of plan.pb, so that the digest covers the others as
// they are and not as a parser understood them.
constexpr std::array<unsigned char, 3> digestTag = {0xa2, 0x06, 0x20};
constexpr size_t digestBytes = digestTag.size() + 32;

void checkPartPath(const std::string &file, const std::string &path) {
  std::filesystem::path relative(path);
  bool bad = path.empty() || relative.is_absolute();
  for (const auto &component : relative)
    bad |= component == "..";
  if (bad)
    failData("{}: the part \"{}\" does not lie in the plan's folder", file, path);
}

} // namespace

const plan::Program *LoadedPlan::program(const std::string &name) const {
  for (const plan::Program &program : target().programs())
    if (program.name() == name)
      return &program;
  return nullptr;
}

std::vector<std::string> targetNames(const plan::Plan &plan) {
  std::vector<std::string> names;
  for (const plan::Target &target : plan.targets())
    names.push_back(target.name());
  return names;
}

std::string constantsPath(const plan::Target &target) { return fmt::format("weights/constants.{}.bin", target.name()); }

std::string sha256OfFile(const std::filesystem::path &path) {
  MappedFile file(path);
  std::string text;
  for (unsigned char byte : sha256(file.bytes()))
    text += fmt::format("{:02x}", byte);
  return text;
}

LoadedPlan loadPlan(const std::filesystem::path &directory, const LoadOptions &options) {
  std::error_code error;
  if (!std::filesystem::exists(directory, error))
    failIo("{}: no such plan; msampc MODEL.onnx -o {} makes one", directory.string(), directory.string());
  if (!std::filesystem::is_directory(directory, error))
    failData("{}: a plan is a folder, as msampc writes it, and this is a file", directory.string());
  const std::filesystem::path path = directory / "plan.pb";
  const std::string file = path.string();
  if (!std::filesystem::exists(path, error))
    failData("{}: has no plan.pb, so it is no plan (or msampc did not finish); compile it again", directory.string());
  MappedFile mapped(path);
  const auto bytes = mapped.bytes();
  if (bytes.size() < digestBytes ||
      std::memcmp(bytes.data() + bytes.size() - digestBytes, digestTag.data(), digestTag.size()) != 0)
    failData("{}: its digest is not at its end: the file was truncated or altered; compile the plan again", file);
  const auto body = bytes.first(bytes.size() - digestBytes);
  if (std::memcmp(sha256(body).data(), bytes.data() + bytes.size() - 32, 32) != 0)
    failData("{}: its contents do not fit its digest: the file was altered; compile the plan again", file);
  LoadedPlan loaded{directory, {}};
  if (bytes.size() > INT32_MAX || !loaded.plan.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    failData("{}: is not a plan", file);
  if (loaded.plan.major() != planMajor)
    failData("{}: was written in version {}.{} of the plan format and this program reads {}.x; compile the plan with the msampc "
             "that belongs to it",
        file, loaded.plan.major(), loaded.plan.minor(), planMajor);
  checkPlan(loaded.plan, file);
  for (const plan::Part &part : loaded.plan.parts()) {
    checkPartPath(file, part.path());
    const std::filesystem::path partPath = directory / part.path();
    uint64_t size = std::filesystem::file_size(partPath, error);
    if (error)
      failData("{}: is missing (the plan says it has {} bytes); compile the plan again", partPath.string(), part.bytes());
    if (size != part.bytes())
      failData("{}: has {} bytes, the plan says {}; compile the plan again", partPath.string(), size, part.bytes());
    if (options.verifyParts && sha256OfFile(partPath) != part.sha256())
      failData("{}: its contents do not fit the SHA-256 in the plan: the file was altered; compile the plan again",
          partPath.string());
  }
  return loaded;
}

void savePlan(const std::filesystem::path &directory, plan::Plan plan) {
  plan.set_major(planMajor);
  plan.set_minor(planMinor);
  plan.clear_digest();
  const std::filesystem::path path = directory / "plan.pb";
  std::string bytes;
  if (!plan.SerializeToString(&bytes))
    failInternal("{}: the plan is beyond the 2 GiB that Protocol Buffers hold", path.string());
  Digest digest = sha256(std::as_bytes(std::span(bytes)));
  bytes.append(reinterpret_cast<const char *>(digestTag.data()), digestTag.size());
  bytes.append(reinterpret_cast<const char *>(digest.data()), digest.size());

  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.tmp", ::getpid());
  int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    failIo("cannot write {}: {}", path.string(), std::strerror(errno));
  size_t done = 0;
  bool ok = true;
  while (ok && done < bytes.size()) {
    ssize_t count = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (count > 0)
      done += static_cast<size_t>(count);
    else
      ok = count < 0 && errno == EINTR;
  }
  ok = ok && (::fsync(descriptor) == 0 || errno == EINVAL);
  int reason = errno;
  ::close(descriptor);
  if (ok && ::rename(temporary.c_str(), path.c_str()) == 0)
    return;
  if (ok)
    reason = errno;
  ::unlink(temporary.c_str());
  failIo("cannot write {}: {}", path.string(), std::strerror(reason));
}

void addPart(plan::Plan &plan, const std::filesystem::path &directory, const std::string &path) {
  checkPartPath(directory.string(), path);
  plan::Part *part = plan.add_parts();
  part->set_path(path);
  part->set_sha256(sha256OfFile(directory / path));
  part->set_bytes(std::filesystem::file_size(directory / path));
}

} // namespace msamp::runtime
